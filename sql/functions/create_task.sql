-- Stores a task with all its sub_tasks.
-- Locks: door, idempotency key (waits for a twin under way), then inserts only.
-- Errors: 23514 when no partition covers today (rvq.create_partitions makes it).
-- Callers: app/partner/store.py
CREATE OR REPLACE FUNCTION rvq.create_task(
    p_queue text, p_payloads text[], p_max_attempts integer[], p_metadata text, p_webhook_url text, p_webhook_host text,
    p_not_before timestamptz, p_policy text, p_required integer, p_deadline_seconds float8,
    p_idempotency_key text, p_body_hash bytea
) RETURNS TABLE (outcome text, task_id bigint, created_at timestamptz, scheduled boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_total integer := cardinality(p_payloads);
    v_policy rvq.completion_policy := p_policy::rvq.completion_policy;
    v_known rvq.idempotency_keys;
BEGIN
    PERFORM rvq.enter();
    created_at := rvq.clock();
    scheduled := coalesce(p_not_before > created_at, false);
    -- What was checked long ago says nothing: nobody does the maintenance. A replay is an answer, not more work.
    IF EXISTS (SELECT FROM rvq.admission AS a WHERE a.refusal IS NOT NULL AND a.checked_at > created_at - interval '1 minute')
       AND NOT EXISTS (SELECT FROM rvq.idempotency_keys AS k WHERE k.key = p_idempotency_key) THEN
        outcome := 'refused';
        RETURN NEXT;
        RETURN;
    END IF;
    task_id := rvq.new_task_id(created_at, v_policy <> 'all');
    IF p_idempotency_key IS NOT NULL THEN
        INSERT INTO rvq.idempotency_keys VALUES (p_idempotency_key, p_body_hash, task_id) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            SELECT * INTO v_known FROM rvq.idempotency_keys k WHERE k.key = p_idempotency_key;
            outcome := CASE WHEN v_known.body_hash = p_body_hash THEN 'replayed' ELSE 'conflict' END;
            task_id := v_known.task_id;
            created_at := (SELECT t.created_at FROM rvq.tasks AS t WHERE t.id = v_known.task_id);
            scheduled := NULL;
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    INSERT INTO rvq.tasks (id, created_at, deadline_seconds, total, required, policy, queue, webhook_url, webhook_host, metadata)
    VALUES (task_id, created_at, p_deadline_seconds, v_total, p_required, v_policy, p_queue, p_webhook_url, p_webhook_host, p_metadata);
    INSERT INTO rvq.open_tasks (id, created_at, deadline_at, total, unfinished, required, policy, queue, webhook_url, webhook_host, metadata)
    VALUES (task_id, created_at, created_at + make_interval(secs => p_deadline_seconds), v_total, v_total, p_required, v_policy,
            p_queue, p_webhook_url, p_webhook_host, p_metadata);
    INSERT INTO rvq.sub_tasks (id, queued_at, max_attempts, payload)
    SELECT task_id + s.ordinal, CASE WHEN scheduled THEN p_not_before ELSE created_at END, s.max_attempts, s.payload
      FROM unnest(p_payloads, p_max_attempts) WITH ORDINALITY AS s(payload, max_attempts, ordinal);
    -- again: a clock that was set back must not put sub_tasks below the floor where claim starts to look.
    INSERT INTO rvq.open_sub_tasks (id, queued_at, due_at, status, max_attempts, again, queue)
    SELECT task_id + s.ordinal, CASE WHEN scheduled THEN p_not_before ELSE created_at END,
           CASE WHEN scheduled THEN p_not_before END,
           CASE WHEN scheduled THEN 'scheduled' ELSE 'queued' END::rvq.sub_task_status, s.max_attempts,
           EXISTS (SELECT FROM rvq.queues AS q WHERE q.queue = p_queue AND q.claim_floor > created_at), p_queue
      FROM unnest(p_max_attempts) WITH ORDINALITY AS s(max_attempts, ordinal);
    INSERT INTO rvq.counter_deltas (queue, scheduled, queued, tasks_open)
    VALUES (p_queue, CASE WHEN scheduled THEN v_total END, CASE WHEN NOT scheduled THEN v_total END, 1);
    outcome := 'created';
    RETURN NEXT;
END $$;
COMMENT ON FUNCTION rvq.create_task(text, text[], integer[], text, text, text, timestamptz, text, integer, float8, text, bytea) IS
    'Store a task with its sub_tasks: created, or with the known task replayed (same key, same body) or conflict (same key, another body).';
