-- Stores tasks with all their sub_tasks; many small requests are stored by one call. p_payloads and p_max_attempts hold
-- those of all tasks, one task after the other, and p_totals says how many belong to each task. The other arrays have
-- one entry a task.
-- Locks: door, idempotency keys in order (it waits for a request with the same key); then it only inserts.
-- Errors: RQ001 when ids can't say this day; 23514 when no partition covers today (rvq.create_partitions makes it).
CREATE OR REPLACE FUNCTION rvq.create_tasks(
    p_queues text[], p_totals integer[], p_payloads text[], p_max_attempts integer[], p_metadata text[],
    p_webhook_urls text[], p_webhook_hosts text[], p_not_before timestamptz[], p_policies text[], p_required integer[],
    p_deadline_seconds float8[], p_idempotency_keys text[], p_body_hashes bytea[]
) RETURNS TABLE (outcome text, task_id bigint, created_at timestamptz, scheduled boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_now timestamptz;
    v_refused boolean;
    v_base bigint;
    v_policy text;
    v_ids bigint[] := '{}';
    v_outcomes text[];
    v_task_ids bigint[];
BEGIN
    PERFORM rvq.hold_door();
    v_now := rvq.clock();
    -- A check that is older than a minute says nothing: maintenance does not run. Neither does one that lies ahead.
    SELECT a.refusal IS NOT NULL
           AND a.checked_at BETWEEN v_now - interval '1 minute' AND v_now + interval '1 minute',
           (SELECT d.base FROM rvq.id_days AS d WHERE d.day = rvq.day_at(v_now))
      INTO v_refused, v_base FROM rvq.admission AS a;
    v_base := coalesce(v_base, rvq.open_day(v_now));
    FOREACH v_policy IN ARRAY p_policies LOOP
        v_ids := v_ids || rvq.new_task_id(v_now, v_policy <> 'all', v_base);
    END LOOP;
    IF num_nonnulls(VARIADIC p_idempotency_keys) = 0 THEN
        v_outcomes := array_fill(CASE WHEN v_refused THEN 'refused' ELSE 'created' END, ARRAY[cardinality(v_ids)]);
        v_task_ids := v_ids;
    ELSE
        SELECT k.outcomes, k.task_ids INTO v_outcomes, v_task_ids
          FROM rvq.claim_idempotency_keys(p_idempotency_keys, p_body_hashes, v_ids, v_refused) AS k;
    END IF;
    v_now := rvq.insert_tasks(v_ids, v_outcomes, p_queues, p_totals, p_payloads, p_max_attempts, p_metadata,
                             p_webhook_urls, p_webhook_hosts, p_not_before, p_policies, p_required, p_deadline_seconds);
    FOR i IN 1 .. cardinality(p_queues) LOOP
        outcome := v_outcomes[i];
        task_id := v_task_ids[i];
        created_at := v_now;
        scheduled := CASE WHEN outcome = 'created' THEN coalesce(p_not_before[i] > v_now, false) END;
        IF outcome <> 'created' THEN
            created_at := coalesce((SELECT t.created_at FROM rvq.tasks AS t WHERE t.id = task_id), v_now);
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
COMMENT ON FUNCTION rvq.create_tasks(
    text[], integer[], text[], integer[], text[], text[], text[], timestamptz[], text[], integer[], float8[], text[],
    bytea[]
) IS
    'Store tasks with their sub_tasks; return one outcome each, in order: created, replayed, conflict, refused.';
