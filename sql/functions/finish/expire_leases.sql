-- A lease that ran out spends its attempt: back-off and retry, or failed. The token stays in the row: a late report
-- still counts as long as nobody took the sub_task over. Token and time (set while the sub_task is claimed, and only
-- then) are checked again where they are written, as a worker may have reported or extended the lease before the lock
-- was held. A batch is p_limit leases, and twenty times as many siblings that may be cancelled.
-- Locks: door, gates by number, sub_tasks by (queued_at, id), tasks by id.
CREATE OR REPLACE FUNCTION rvq.expire_leases(p_limit integer) RETURNS TABLE (expired integer, is_full boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_error constant text := '{"code":"lease_expired","message":"the lease expired before the worker reported"}';
    v_lost constant text := '{"code":"payload_lost","message":"the payload is damaged: no worker can have it"}';
    v_ids bigint[];
    v_tokens uuid[];
    v_task_ids bigint[];
    v_previous rvq.sub_task_status[];
    v_statuses rvq.outcome_status[];
    v_gated bigint[];
    v_found integer;
    v_now timestamptz;
BEGIN
    PERFORM rvq.hold_door();
    v_now := rvq.clock();
    SELECT count(*), array_agg(l.id) FILTER (WHERE l.fits), array_agg(l.lease_token) FILTER (WHERE l.fits)
      INTO v_found, v_ids, v_tokens FROM rvq.list_expired_leases(p_limit, 20 * p_limit, v_now) AS l;
    expired := 0;
    is_full := v_found > 0 AND (v_found = p_limit OR v_found > cardinality(v_ids));
    IF v_found = 0 THEN
        RETURN NEXT;
        RETURN;
    END IF;
    v_gated := rvq.hold_gates(v_ids);
    PERFORM rvq.lock_sub_tasks(
        v_ids || rvq.siblings_to_lock(v_gated, v_ids, array_fill(false, ARRAY[cardinality(v_ids)])));
    v_now := rvq.clock();
    WITH failed AS (
        DELETE FROM rvq.open_sub_tasks AS s USING unnest(v_ids, v_tokens) AS e(id, lease_token)
         WHERE s.id = e.id AND s.lease_token = e.lease_token AND s.lease_expires_at <= v_now
           AND s.attempt >= s.max_attempts
        RETURNING s.id, s.attempt, s.worker_id, s.lease_expires_at),
    retried AS (
        UPDATE rvq.open_sub_tasks AS s
           SET status = 'scheduled', requeued = true, lease_expires_at = NULL,
               (due_at, wait_seconds) = (SELECT rvq.clock() + d, ceil(extract(epoch FROM d))
                                           FROM rvq.retry_delay(s.attempt) AS d)
          FROM unnest(v_ids, v_tokens) AS e(id, lease_token)
         WHERE s.id = e.id AND s.lease_token = e.lease_token AND s.lease_expires_at <= v_now
           AND s.attempt < s.max_attempts
        RETURNING s.id, s.attempt, s.worker_id, s.queue),
    fact AS (
        INSERT INTO rvq.outcomes (id, ended_at, attempt, status, worker_id, error)
        SELECT f.id, v_now, f.attempt, 'failed'::rvq.outcome_status, f.worker_id,
               CASE WHEN f.lease_expires_at = '-infinity' THEN v_lost ELSE v_error END FROM failed AS f
        UNION ALL
        SELECT r.id, v_now, r.attempt, 'retrying', r.worker_id, v_error FROM retried AS r),
    counted AS (
        INSERT INTO rvq.counter_deltas (queue, scheduled, claimed)
        SELECT r.queue, count(*), -count(*) FROM retried AS r GROUP BY r.queue)
    SELECT array_agg(rvq.task_of(f.id)), array_agg('claimed'::rvq.sub_task_status),
           array_agg('failed'::rvq.outcome_status), count(*) + (SELECT count(*) FROM retried)
      INTO v_task_ids, v_previous, v_statuses, expired FROM failed AS f;
    IF v_task_ids IS NOT NULL THEN
        PERFORM rvq.advance_tasks(v_task_ids, v_previous, v_statuses, NULL, v_now);
    END IF;
    RETURN NEXT;
END $$;
COMMENT ON FUNCTION rvq.expire_leases(integer) IS
    'End the leases that ran out, a batch at a time; return how many, and whether there may be more.';
