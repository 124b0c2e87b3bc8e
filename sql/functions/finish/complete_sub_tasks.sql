-- Stores what workers report, at most once a lease, and ends the tasks that this finishes. The reports may be of
-- several workers; many small requests are stored by one call.
-- Locks: door, gates by number, sub_tasks by (queued_at, id), tasks by id; then it only inserts (counters, outbox).
CREATE OR REPLACE FUNCTION rvq.complete_sub_tasks(
    p_worker_ids text[], p_ids bigint[], p_lease_tokens uuid[], p_succeeded boolean[], p_results text[],
    p_errors text[], p_retryable boolean[], p_retry_after float8[]
) RETURNS text[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_outcomes text[] := array_fill(NULL::text, ARRAY[cardinality(p_ids)]);
    v_positions bigint[];
    v_task_ids bigint[];
    v_previous rvq.sub_task_status[];
    v_statuses rvq.outcome_status[];
    v_gated bigint[];
    v_now timestamptz;
BEGIN
    PERFORM rvq.hold_door();
    v_gated := rvq.hold_gates(p_ids);
    IF cardinality(v_gated) > 0 THEN
        PERFORM rvq.lock_sub_tasks(p_ids || rvq.siblings_to_lock(v_gated, p_ids, p_succeeded));
    ELSE
        PERFORM rvq.lock_sub_tasks(p_ids);
    END IF;
    v_now := rvq.clock();
    WITH ended AS (
        DELETE FROM rvq.open_sub_tasks AS s
         USING unnest(p_ids, p_lease_tokens) WITH ORDINALITY AS r(id, lease_token, position)
         WHERE s.id = r.id AND s.lease_token = r.lease_token
           AND (p_succeeded[r.position] OR NOT p_retryable[r.position] OR s.attempt >= s.max_attempts)
        RETURNING r.position, s.id, s.lease_token, s.attempt, s.status AS previous,
                  CASE WHEN p_succeeded[r.position] THEN 'succeeded' ELSE 'failed' END::rvq.outcome_status AS status),
    fact AS (
        INSERT INTO rvq.outcomes (id, lease_token, ended_at, attempt, status, worker_id, result, error)
        SELECT e.id, e.lease_token, v_now, e.attempt, e.status, p_worker_ids[e.position], p_results[e.position],
               p_errors[e.position]
          FROM ended AS e)
    SELECT array_agg(e.position), array_agg(rvq.task_of(e.id)), array_agg(e.previous), array_agg(e.status)
      INTO v_positions, v_task_ids, v_previous, v_statuses FROM ended AS e;
    IF false = ANY (p_succeeded) THEN
        v_outcomes := rvq.retry_reported(p_worker_ids, p_ids, p_lease_tokens, p_errors, p_retry_after, v_now);
    END IF;
    FOR i IN 1 .. coalesce(cardinality(v_positions), 0) LOOP
        v_outcomes[v_positions[i]] := v_statuses[i];
    END LOOP;
    IF v_task_ids IS NOT NULL THEN
        PERFORM rvq.advance_tasks(v_task_ids, v_previous, v_statuses, NULL, v_now);
    END IF;
    IF array_position(v_outcomes, NULL) IS NOT NULL THEN
        v_outcomes := rvq.explain_reports(v_outcomes, p_ids, p_lease_tokens);
    END IF;
    RETURN v_outcomes;
END $$;
COMMENT ON FUNCTION rvq.complete_sub_tasks(text[], bigint[], uuid[], boolean[], text[], text[], boolean[], float8[]) IS
    'Store reports of workers; return for each, in order, succeeded, retrying, failed, duplicate, stale or unknown.';
