-- Written like rvq.heartbeat_sub_tasks, for the same reasons.
-- Locks: door, sub_tasks by (queued_at, id).
CREATE OR REPLACE FUNCTION rvq.release_sub_tasks(p_ids bigint[], p_lease_tokens uuid[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_outcomes text[];
BEGIN
    PERFORM rvq.hold_door();
    PERFORM rvq.lock_sub_tasks(p_ids);
    v_outcomes := ARRAY(
        SELECT coalesce(
                   (SELECT CASE WHEN s.lease_token = l.lease_token AND s.lease_expires_at IS NOT NULL
                                THEN 'released' ELSE 'stale' END
                      FROM rvq.open_sub_tasks AS s WHERE s.id = l.id),
                   (SELECT 'stale' FROM rvq.sub_tasks AS s WHERE s.id = l.id),
                   'unknown')
          FROM unnest(p_ids, p_lease_tokens) WITH ORDINALITY AS l(id, lease_token, position) ORDER BY l.position);
    WITH released AS (
        UPDATE rvq.open_sub_tasks AS s
           SET status = 'queued', attempt = s.attempt - 1, requeued = true, lease_token = NULL, lease_expires_at = NULL,
               worker_id = NULL
          FROM unnest(p_ids, p_lease_tokens) AS l(id, lease_token)
         WHERE s.id = l.id AND s.lease_token = l.lease_token AND s.lease_expires_at IS NOT NULL
        RETURNING s.queue)
    INSERT INTO rvq.counter_deltas (queue, queued, claimed)
    SELECT r.queue, count(*), -count(*) FROM released AS r GROUP BY r.queue;
    RETURN v_outcomes;
END $$;
COMMENT ON FUNCTION rvq.release_sub_tasks(bigint[], uuid[]) IS
    'Give leases back without charging the attempt; return one outcome each, in order: released, stale, unknown.';
