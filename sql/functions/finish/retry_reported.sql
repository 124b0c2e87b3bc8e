-- Once the reports that end a sub_task are applied, a matching lease that is left is a failure with attempts left. The
-- token is removed, so that this lease can't report twice.
-- Locks: none of its own, the sub_tasks are locked.
CREATE OR REPLACE FUNCTION rvq.retry_reported(
    p_worker_ids text[], p_ids bigint[], p_lease_tokens uuid[], p_errors text[], p_retry_after float8[],
    p_now timestamptz
) RETURNS text[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_outcomes text[] := array_fill(NULL::text, ARRAY[cardinality(p_ids)]);
    v_positions bigint[];
    v_position bigint;
BEGIN
    WITH report AS (
        SELECT * FROM unnest(p_worker_ids, p_ids, p_lease_tokens, p_errors, p_retry_after) WITH ORDINALITY
            AS r(worker_id, id, lease_token, error, retry_after, position)),
    held AS MATERIALIZED (
        SELECT DISTINCT ON (s.id) s.id, s.lease_token, s.queue, s.attempt, s.status AS previous, r.position,
               r.worker_id, r.error, coalesce(make_interval(secs => r.retry_after), rvq.retry_delay(s.attempt)) AS delay
          FROM report AS r JOIN rvq.open_sub_tasks AS s ON s.id = r.id AND s.lease_token = r.lease_token
         ORDER BY s.id, r.position),
    retried AS (
        UPDATE rvq.open_sub_tasks AS s
           SET status = CASE WHEN h.delay > '0' THEN 'scheduled' ELSE 'queued' END::rvq.sub_task_status,
               due_at = CASE WHEN h.delay > '0' THEN (SELECT rvq.clock()) + h.delay END,
               wait_seconds = ceil(extract(epoch FROM h.delay)),
               requeued = true, lease_token = NULL, lease_expires_at = NULL
          FROM held AS h WHERE s.id = h.id
        RETURNING h.*, s.status),
    fact AS (
        INSERT INTO rvq.outcomes (id, lease_token, ended_at, attempt, status, worker_id, error)
        SELECT r.id, r.lease_token, p_now, r.attempt, 'retrying', r.worker_id, r.error FROM retried AS r),
    counted AS (
        INSERT INTO rvq.counter_deltas (queue, scheduled, queued, claimed)
        SELECT r.queue,
               count(*) FILTER (WHERE r.status = 'scheduled') - count(*) FILTER (WHERE r.previous = 'scheduled'),
               count(*) FILTER (WHERE r.status = 'queued') - count(*) FILTER (WHERE r.previous = 'queued'),
               -count(*) FILTER (WHERE r.previous = 'claimed')
          FROM retried AS r GROUP BY r.queue)
    SELECT array_agg(r.position) INTO v_positions FROM retried AS r;
    FOREACH v_position IN ARRAY coalesce(v_positions, '{}') LOOP
        v_outcomes[v_position] := 'retrying';
    END LOOP;
    RETURN v_outcomes;
END $$;
COMMENT ON FUNCTION rvq.retry_reported(text[], bigint[], uuid[], text[], float8[], timestamptz) IS
    'Put sub_tasks whose attempt failed back to wait for the next one; return retrying for each such report.';
