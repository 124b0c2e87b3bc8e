-- Takes up to p_limit sub_tasks, the queues in the order given, each queue's oldest first.
-- Locks: door; sub_tasks with SKIP LOCKED, so it never waits. Writes no tasks row.
-- Callers: app/worker/store.py
CREATE OR REPLACE FUNCTION rvq.claim_sub_tasks(p_worker_id text, p_limit integer, p_lease_seconds integer, p_queues text[])
RETURNS TABLE (id bigint, queue text, attempt integer, max_attempts integer, payload text, lease_token uuid, lease_expires_at timestamptz)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_claimed rvq.open_sub_tasks[];
    v_first_day integer;
    v_last_day integer;
BEGIN
    PERFORM rvq.enter();
    v_claimed := rvq.take_queued(p_worker_id, p_limit, p_lease_seconds, p_queues);
    IF cardinality(v_claimed) < p_limit AND rvq.promote_due(1000) > 0 THEN
        v_claimed := v_claimed || rvq.take_queued(p_worker_id, p_limit - cardinality(v_claimed), p_lease_seconds, p_queues);
    END IF;
    IF cardinality(v_claimed) = 0 THEN
        RETURN;
    END IF;
    WITH counted AS (
        INSERT INTO rvq.counter_deltas (queue, queued, claimed)
        SELECT c.queue, -count(*), count(*) FROM unnest(v_claimed) AS c GROUP BY c.queue)
    SELECT min(rvq.day_of(c.id)), max(rvq.day_of(c.id)) INTO v_first_day, v_last_day FROM unnest(v_claimed) AS c;
    -- The partition is named, not pruned: a cached plan over the parent would lock every partition at each call.
    FOR v_day IN v_first_day .. v_last_day LOOP
        CONTINUE WHEN to_regclass('rvq.sub_tasks_' || v_day) IS NULL;
        RETURN QUERY EXECUTE format(
            'SELECT c.id, c.queue, c.attempt::integer, c.max_attempts::integer, s.payload, c.lease_token, c.lease_expires_at
               FROM unnest($1) WITH ORDINALITY AS c JOIN rvq.sub_tasks_%s AS s ON s.id = c.id ORDER BY c.ordinality', v_day)
        USING v_claimed;
    END LOOP;
END $$;
COMMENT ON FUNCTION rvq.claim_sub_tasks(text, integer, integer, text[]) IS 'Lease queued sub_tasks to a worker and hand them out with their payloads.';
