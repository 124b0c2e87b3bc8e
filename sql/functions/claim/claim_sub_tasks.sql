-- Serves several claims that differ in their worker and limit only. Takes up to the sum of p_limits, for the first
-- claim first, from the queues in the order given. When that is too few, it queues what is due, and makes a second
-- pass. A lone claim stops at 16 MiB of payloads, and looks at every 128 (32 MiB at most). Claims that share a call
-- take fewer than 300 sub_tasks: a bound over all would leave the last ones with nothing. Sub_tasks are locked by one
-- statement and updated by the next: an UPDATE that finds a row changed would run its join, limit and all, once more.
-- Locks: door; sub_tasks with SKIP LOCKED (see rvq.take_queued). It writes no row of a task.
CREATE OR REPLACE FUNCTION rvq.claim_sub_tasks(
    p_worker_ids text[], p_limits integer[], p_lease_seconds integer, p_queues text[]
) RETURNS TABLE (claim integer, id bigint, queue text, attempt integer, max_attempts integer, payload text,
                 lease_token uuid, lease_expires_at timestamptz)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_random text := rvq.random_hex();
    v_starts integer[] := '{0}';
    v_limit integer;
    v_wanted integer := 0;
    v_claimed integer := 0;
    v_bytes_left integer := CASE WHEN cardinality(p_limits) = 1 THEN 16777216 ELSE 2147483647 END;
    v_queue text;
    v_taken bigint[];
    v_payloads text[];
BEGIN
    PERFORM rvq.hold_door();
    FOREACH v_limit IN ARRAY p_limits LOOP
        v_wanted := v_wanted + v_limit;
        v_starts := v_starts || v_wanted;
    END LOOP;
    FOR v_pass IN 1 .. 2 LOOP
        FOREACH v_queue IN ARRAY p_queues LOOP
            -- Promotion, before the second pass, holds sub_tasks too.
            v_taken := rvq.take_queued(v_queue, v_wanted, v_pass = 2 OR v_claimed > 0);
            CONTINUE WHEN cardinality(v_taken) = 0;
            IF cardinality(v_taken) <= 128 THEN -- The usual case: it saves a call.
                v_payloads := rvq.payloads_of(v_taken);
            ELSE
                v_payloads := rvq.payloads_within(v_taken, v_bytes_left);
                v_taken := v_taken[:cardinality(v_payloads)];
            END IF;
            IF array_position(v_payloads, NULL) IS NOT NULL THEN
                v_taken := rvq.set_aside_sub_tasks(v_queue, v_taken, v_payloads);
                v_payloads := array_remove(v_payloads, NULL);
                v_wanted := cardinality(v_taken); -- What more there is, the next claim takes.
            END IF;
            INSERT INTO rvq.counter_deltas (queue, queued, claimed)
            VALUES (v_queue, -cardinality(v_taken), cardinality(v_taken));
            -- The clock is read last: whatever was waited for until now is no part of the lease.
            RETURN QUERY
            UPDATE rvq.open_sub_tasks AS s
               SET status = 'claimed', attempt = least(s.attempt + 1, 32767), worker_id = p_worker_ids[t.claim],
                   lease_token = rvq.lease_token(v_random, s.id), wait_seconds = p_lease_seconds,
                   lease_expires_at = (SELECT rvq.clock() + make_interval(secs => p_lease_seconds))
              FROM (SELECT u.id, u.payload, width_bucket(v_claimed + u.position::integer - 1, v_starts) AS claim
                      FROM unnest(v_taken, v_payloads) WITH ORDINALITY AS u(id, payload, position)) AS t
             WHERE s.id = t.id
            RETURNING t.claim, s.id, v_queue, s.attempt::integer, s.max_attempts::integer, t.payload, s.lease_token,
                      s.lease_expires_at;
            v_claimed := v_claimed + cardinality(v_taken);
            v_bytes_left := v_bytes_left - pg_column_size(v_payloads);
            v_wanted := CASE WHEN v_bytes_left > 0 THEN v_wanted - cardinality(v_taken) ELSE 0 END;
            EXIT WHEN v_wanted = 0;
        END LOOP;
        EXIT WHEN v_pass = 2 OR v_wanted = 0 OR rvq.promote_due(1000) = 0;
    END LOOP;
END $$;
COMMENT ON FUNCTION rvq.claim_sub_tasks(text[], integer[], integer, text[]) IS
    'Lease queued sub_tasks to workers and return them with their payloads; `claim` counts from 1.';
