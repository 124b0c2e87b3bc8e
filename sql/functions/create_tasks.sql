-- Stores tasks with all their sub_tasks: many small requests are stored by one call. p_payloads and p_max_attempts have
-- those of all tasks, one task after the other; p_totals says how many are whose. The other arrays have one entry a task.
-- Locks: door, idempotency keys in order (waits for twins under way), then inserts only.
-- Errors: 23514 when no partition covers today (rvq.create_partitions makes it).
-- Callers: app/partner/store.py
CREATE OR REPLACE FUNCTION rvq.create_tasks(
    p_queues text[], p_totals integer[], p_payloads text[], p_max_attempts integer[], p_metadata text[], p_webhook_urls text[],
    p_webhook_hosts text[], p_not_before timestamptz[], p_policies text[], p_required integer[], p_deadline_seconds float8[],
    p_idempotency_keys text[], p_body_hashes bytea[]
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
    v_now timestamptz;
    v_refused boolean;
    v_ahead text[];
    v_starts integer[] := '{0}';
    v_ids bigint[] := '{}';
    v_outcomes text[];
    v_known bigint[];
BEGIN
    PERFORM rvq.enter();
    v_now := rvq.clock();
    -- What was checked long ago says nothing: nobody does the maintenance. Ahead: a clock that was set back must not put
    -- sub_tasks below the floor where claim starts to look.
    SELECT a.refusal IS NOT NULL AND a.checked_at > v_now - interval '1 minute',
           ARRAY(SELECT q.queue FROM rvq.queues AS q WHERE q.queue = ANY (p_queues) AND q.claim_floor > v_now)
      INTO v_refused, v_ahead FROM rvq.admission AS a;
    FOR v_place IN 1 .. cardinality(p_queues) LOOP
        v_ids := v_ids || rvq.new_task_id(v_now, p_policies[v_place] <> 'all');
        v_starts := v_starts || v_starts[v_place] + p_totals[v_place];
    END LOOP;
    IF num_nonnulls(VARIADIC p_idempotency_keys) = 0 THEN
        v_outcomes := array_fill(CASE WHEN v_refused THEN 'refused' ELSE 'created' END, ARRAY[cardinality(v_ids)]);
        v_known := v_ids;
    ELSE
        SELECT k.outcomes, k.task_ids INTO v_outcomes, v_known FROM rvq.use_keys(p_idempotency_keys, p_body_hashes, v_ids, v_refused) AS k;
    END IF;
    WITH task AS (
        SELECT i AS place, v_ids[i] AS id, p_totals[i] AS total, p_queues[i] AS queue,
               CASE WHEN p_not_before[i] > v_now THEN p_not_before[i] END AS due_at, p_policies[i]::rvq.completion_policy AS policy,
               p_required[i] AS required, p_deadline_seconds[i] AS deadline_seconds, p_webhook_urls[i] AS url, p_webhook_hosts[i] AS host,
               p_metadata[i] AS metadata
          FROM generate_series(1, cardinality(v_ids)) AS i WHERE v_outcomes[i] = 'created'),
    fact AS (
        INSERT INTO rvq.tasks (id, created_at, deadline_seconds, total, required, policy, queue, webhook_url, webhook_host, metadata)
        SELECT t.id, v_now, t.deadline_seconds, t.total, t.required, t.policy, t.queue, t.url, t.host, t.metadata FROM task AS t),
    open_task AS (
        INSERT INTO rvq.open_tasks (id, created_at, deadline_at, total, unfinished, required, policy, queue, webhook_url, webhook_host, metadata)
        SELECT t.id, v_now, v_now + make_interval(secs => t.deadline_seconds), t.total, t.total, t.required, t.policy, t.queue, t.url,
               t.host, t.metadata
          FROM task AS t),
    counted AS (
        INSERT INTO rvq.counter_deltas (queue, scheduled, queued, tasks_open)
        SELECT t.queue, CASE WHEN t.due_at IS NOT NULL THEN sum(t.total) END, CASE WHEN t.due_at IS NULL THEN sum(t.total) END, count(*)
          FROM task AS t GROUP BY t.queue, t.due_at),
    sub_task AS (
        SELECT t.id + s.number - v_starts[t.place] AS id, coalesce(t.due_at, v_now) AS queued_at, t.due_at, t.queue, s.max_attempts, s.payload
          FROM task AS t CROSS JOIN LATERAL (
              SELECT i AS number, p_max_attempts[i] AS max_attempts, p_payloads[i] AS payload
                FROM generate_series(v_starts[t.place] + 1, v_starts[t.place + 1]) AS i) AS s),
    sub_fact AS (
        INSERT INTO rvq.sub_tasks (id, queued_at, max_attempts, payload)
        SELECT s.id, s.queued_at, s.max_attempts, s.payload FROM sub_task AS s)
    INSERT INTO rvq.open_sub_tasks (id, queued_at, due_at, status, max_attempts, again, queue)
    SELECT s.id, s.queued_at, s.due_at, CASE WHEN s.due_at IS NULL THEN 'queued' ELSE 'scheduled' END::rvq.sub_task_status, s.max_attempts,
           s.queue = ANY (v_ahead), s.queue
      FROM sub_task AS s;
    FOR v_place IN 1 .. cardinality(p_queues) LOOP
        outcome := v_outcomes[v_place];
        task_id := v_known[v_place];
        created_at := v_now;
        scheduled := CASE WHEN outcome = 'created' THEN coalesce(p_not_before[v_place] > v_now, false) END;
        IF outcome <> 'created' THEN
            created_at := coalesce((SELECT t.created_at FROM rvq.tasks AS t WHERE t.id = task_id), v_now);
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
COMMENT ON FUNCTION rvq.create_tasks(
    text[], integer[], text[], integer[], text[], text[], text[], timestamptz[], text[], integer[], float8[], text[], bytea[]) IS
    'Store tasks with their sub_tasks: created, or with the known task replayed (same key and body) or conflict (other body), or refused.';
