-- Serves several claims that differ in their worker and limit only; many small requests are served by one call. Takes up
-- to the sum of p_limits, for the first claim first, the queues in the order given, each queue's oldest first: those queued again, which are
-- the older ones, then those queued for the first time, from the queue's floor on. When that is too few, what is
-- scheduled and due by now is queued and a second pass made.
-- Locked by one statement and updated by the next, which sees what was locked: an UPDATE that finds a row changed since its
-- snapshot runs what it joins once more, locks, limit and all.
-- Locks: door; sub_tasks with SKIP LOCKED, see rvq.take_queued and rvq.take_more_queued. Writes no tasks row.
-- Callers: app/worker/store.py
CREATE OR REPLACE FUNCTION rvq.claim_sub_tasks(p_worker_ids text[], p_limits integer[], p_lease_seconds integer, p_queues text[])
RETURNS TABLE (claim integer, id bigint, queue text, attempt integer, max_attempts integer, payload text, lease_token uuid, lease_expires_at timestamptz)
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
    v_starts integer[] := '{0}';
    v_left integer := 0;
    v_slot integer := 0;
    v_queue text;
    v_again boolean;
    v_holds boolean := false;
    v_taken bigint[];
    v_ids bigint[];
    v_claims integer[];
    v_attempts integer[];
    v_max_attempts integer[];
    v_tokens uuid[];
    v_payloads text[];
BEGIN
    PERFORM rvq.enter();
    FOREACH v_row IN ARRAY p_limits LOOP
        v_left := v_left + v_row;
        v_starts := v_starts || v_left;
    END LOOP;
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
                   SET status = 'claimed', attempt = s.attempt + 1, due_at = NULL,
                       worker_id = p_worker_ids[width_bucket(v_slot + t.position::integer - 1, v_starts)],
                       lease_token = rvq.lease_token(v_random, s.id), lease_expires_at = claim_sub_tasks.lease_expires_at
                  FROM unnest(v_taken) WITH ORDINALITY AS t(id, position) WHERE s.id = t.id
                RETURNING s.id, s.attempt, s.max_attempts, s.lease_token, t.position),
            counted AS (
                INSERT INTO rvq.counter_deltas (queue, queued, claimed) SELECT v_queue, -count(*), count(*) FROM claimed)
            SELECT array_agg(c.id), array_agg(c.attempt::integer), array_agg(c.max_attempts::integer), array_agg(c.lease_token),
                   array_agg(width_bucket(v_slot + c.position::integer - 1, v_starts))
              INTO v_ids, v_attempts, v_max_attempts, v_tokens, v_claims FROM (SELECT * FROM claimed ORDER BY id) AS c;
            v_left := v_left - cardinality(v_ids);
            v_slot := v_slot + cardinality(v_ids);
            v_payloads := rvq.texts_of('sub_tasks', 'payload', v_ids);
            IF array_position(v_payloads, NULL) IS NOT NULL THEN
                RAISE data_corrupted USING MESSAGE = format('sub_task %s has no payload', v_ids[array_position(v_payloads, NULL)]);
            END IF;
            RETURN QUERY SELECT c.*, lease_expires_at
                FROM unnest(v_claims, v_ids, array_fill(v_queue, ARRAY[cardinality(v_ids)]), v_attempts, v_max_attempts,
                            v_payloads, v_tokens) AS c;
            EXIT WHEN v_left = 0;
        END LOOP;
        EXIT WHEN v_pass = 2 OR v_left = 0 OR rvq.promote_due(1000) = 0;
    END LOOP;
END $$;
COMMENT ON FUNCTION rvq.claim_sub_tasks(text[], integer[], integer, text[]) IS
    'Lease queued sub_tasks to workers and hand them out with their payloads; `claim` counts from 1.';
