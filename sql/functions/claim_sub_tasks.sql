-- Takes up to p_limit sub_tasks, the queues in the order given, each queue's oldest first: those queued again, which are
-- the older ones, then those queued for the first time, from the queue's floor on. When that is too few, what is
-- scheduled and due by now is queued and a second pass made.
-- Locked by one statement and updated by the next, which sees what was locked: an UPDATE that finds a row changed since its
-- snapshot runs what it joins once more, locks, limit and all.
-- The payloads' partition is named, not pruned: a cached plan over the parent would lock every partition at each
-- call. That statement is planned each time, so it is the plainest there is: one index, no join.
-- Locks: door; sub_tasks with SKIP LOCKED, see rvq.take_queued and rvq.take_more_queued. Writes no tasks row.
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
    v_random text := rvq.draw();
    v_row integer;
    v_matched integer;
    v_left integer := p_limit;
    v_queue text;
    v_again boolean;
    v_holds boolean := false;
    v_taken bigint[];
    v_ids bigint[];
    v_attempts smallint[];
    v_max_attempts smallint[];
    v_tokens uuid[];
BEGIN
    PERFORM rvq.enter();
    lease_expires_at := rvq.clock() + make_interval(secs => p_lease_seconds);
    FOR v_pass IN 1 .. 2 LOOP
        FOREACH v_queue IN ARRAY p_queues LOOP
            v_taken := '{}';
            FOREACH v_again IN ARRAY '{t,f}'::boolean[] LOOP
                -- Mostly nothing is queued again; then nothing is locked by having looked.
                CONTINUE WHEN v_again AND NOT EXISTS (
                    SELECT FROM rvq.open_sub_tasks AS s WHERE s.status = 'queued' AND s.again AND s.queue = v_queue);
                IF v_holds THEN
                    v_taken := v_taken || rvq.take_more_queued(v_queue, v_again, v_left - cardinality(v_taken));
                ELSE
                    v_taken := rvq.take_queued(v_queue, v_again, v_left);
                    v_holds := true;
                END IF;
                EXIT WHEN cardinality(v_taken) = v_left;
            END LOOP;
            CONTINUE WHEN cardinality(v_taken) = 0;
            WITH claimed AS (
                UPDATE rvq.open_sub_tasks AS s
                   SET status = 'claimed', attempt = s.attempt + 1, worker_id = p_worker_id, due_at = NULL,
                       lease_token = rvq.lease_token(v_random, s.id), lease_expires_at = claim_sub_tasks.lease_expires_at
                 WHERE s.id = ANY (v_taken)
                RETURNING s.id, s.attempt, s.max_attempts, s.lease_token),
            counted AS (
                INSERT INTO rvq.counter_deltas (queue, queued, claimed) SELECT v_queue, -count(*), count(*) FROM claimed)
            SELECT array_agg(c.id), array_agg(c.attempt), array_agg(c.max_attempts), array_agg(c.lease_token)
              INTO v_ids, v_attempts, v_max_attempts, v_tokens FROM (SELECT * FROM claimed ORDER BY id) AS c;
            v_left := v_left - cardinality(v_ids);
            queue := v_queue;
            v_row := 0;
            v_matched := 0;
            FOR v_day IN rvq.day_of(v_ids[1]) .. rvq.day_of(v_ids[cardinality(v_ids)]) LOOP
                CONTINUE WHEN to_regclass('rvq.sub_tasks_' || v_day) IS NULL;
                FOR id, payload IN EXECUTE format(
                    'SELECT s.id, s.payload FROM rvq.sub_tasks_%s AS s WHERE s.id = ANY ($1) ORDER BY s.id', v_day) USING v_ids
                LOOP
                    v_row := v_row + 1;
                    EXIT WHEN id <> v_ids[v_row];
                    attempt := v_attempts[v_row];
                    max_attempts := v_max_attempts[v_row];
                    lease_token := v_tokens[v_row];
                    v_matched := v_row;
                    RETURN NEXT;
                END LOOP;
            END LOOP;
            -- Both come in the order of ids. A payload that is not there must not shift tokens to others.
            IF v_matched < cardinality(v_ids) THEN
                RAISE data_corrupted USING MESSAGE = format('sub_task %s has no payload', v_ids[v_matched + 1]);
            END IF;
            EXIT WHEN v_left = 0;
        END LOOP;
        EXIT WHEN v_pass = 2 OR v_left = 0 OR rvq.promote_due(1000) = 0;
    END LOOP;
END $$;
COMMENT ON FUNCTION rvq.claim_sub_tasks(text, integer, integer, text[]) IS 'Lease queued sub_tasks to a worker and hand them out with their payloads.';
