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
    v_total integer;
    v_starts integer[] := '{0}';
    v_ids bigint[];
    v_created boolean[];
    v_scheduled boolean[];
    v_again boolean[];
    v_outcomes text[];
    v_known bigint[];
    v_refused boolean;
    v_created_at timestamptz[];
BEGIN
    PERFORM rvq.enter();
    v_now := rvq.clock();
    FOREACH v_total IN ARRAY p_totals LOOP
        v_starts := v_starts || v_starts[cardinality(v_starts)] + v_total;
    END LOOP;
    -- again: a clock that was set back must not put sub_tasks below the floor where claim starts to look.
    SELECT array_agg(rvq.new_task_id(v_now, n.policy <> 'all')), array_agg(coalesce(n.not_before > v_now, false)),
           array_agg(coalesce((SELECT q.claim_floor > v_now FROM rvq.queues AS q WHERE q.queue = n.queue), false))
      INTO v_ids, v_scheduled, v_again FROM unnest(p_policies, p_not_before, p_queues) AS n(policy, not_before, queue);
    -- What was checked long ago says nothing: nobody does the maintenance.
    v_refused := EXISTS (
        SELECT FROM rvq.admission AS a WHERE a.refusal IS NOT NULL AND a.checked_at > v_now - interval '1 minute');
    SELECT k.outcomes, k.task_ids INTO v_outcomes, v_known FROM rvq.use_keys(p_idempotency_keys, p_body_hashes, v_ids, v_refused) AS k;
    v_created := ARRAY(SELECT o = 'created' FROM unnest(v_outcomes) AS o);
    INSERT INTO rvq.tasks (id, created_at, deadline_seconds, total, required, policy, queue, webhook_url, webhook_host, metadata)
    SELECT n.id, v_now, n.deadline_seconds, n.total, n.required, n.policy::rvq.completion_policy, n.queue, n.url, n.host, n.metadata
      FROM unnest(v_created, v_ids, p_deadline_seconds, p_totals, p_required, p_policies, p_queues, p_webhook_urls, p_webhook_hosts,
                  p_metadata) AS n(created, id, deadline_seconds, total, required, policy, queue, url, host, metadata)
     WHERE n.created;
    INSERT INTO rvq.open_tasks (id, created_at, deadline_at, total, unfinished, required, policy, queue, webhook_url, webhook_host, metadata)
    SELECT n.id, v_now, v_now + make_interval(secs => n.deadline_seconds), n.total, n.total, n.required,
           n.policy::rvq.completion_policy, n.queue, n.url, n.host, n.metadata
      FROM unnest(v_created, v_ids, p_deadline_seconds, p_totals, p_required, p_policies, p_queues, p_webhook_urls, p_webhook_hosts,
                  p_metadata) AS n(created, id, deadline_seconds, total, required, policy, queue, url, host, metadata)
     WHERE n.created;
    INSERT INTO rvq.sub_tasks (id, queued_at, max_attempts, payload)
    SELECT v_ids[s.place] + s.number - v_starts[s.place], CASE WHEN v_scheduled[s.place] THEN p_not_before[s.place] ELSE v_now END,
           s.max_attempts, s.payload
      FROM (SELECT u.*, width_bucket(u.number::integer - 1, v_starts) AS place
              FROM unnest(p_payloads, p_max_attempts) WITH ORDINALITY AS u(payload, max_attempts, number)) AS s
     WHERE v_created[s.place];
    INSERT INTO rvq.open_sub_tasks (id, queued_at, due_at, status, max_attempts, again, queue)
    SELECT v_ids[s.place] + s.number - v_starts[s.place], CASE WHEN v_scheduled[s.place] THEN p_not_before[s.place] ELSE v_now END,
           CASE WHEN v_scheduled[s.place] THEN p_not_before[s.place] END,
           CASE WHEN v_scheduled[s.place] THEN 'scheduled' ELSE 'queued' END::rvq.sub_task_status, s.max_attempts,
           v_again[s.place], p_queues[s.place]
      FROM (SELECT u.*, width_bucket(u.number::integer - 1, v_starts) AS place
              FROM unnest(p_max_attempts) WITH ORDINALITY AS u(max_attempts, number)) AS s
     WHERE v_created[s.place];
    INSERT INTO rvq.counter_deltas (queue, scheduled, queued, tasks_open)
    SELECT n.queue, sum(n.total) FILTER (WHERE n.scheduled), sum(n.total) FILTER (WHERE NOT n.scheduled), count(*)
      FROM unnest(v_created, p_queues, p_totals, v_scheduled) AS n(created, queue, total, scheduled) WHERE n.created GROUP BY n.queue;
    IF false = ANY (v_created) THEN
        v_created_at := ARRAY(SELECT (SELECT t.created_at FROM rvq.tasks AS t WHERE t.id = k.id) FROM unnest(v_known) AS k(id));
    END IF;
    RETURN QUERY
    SELECT n.outcome, n.known, coalesce(n.created_at, v_now), CASE WHEN n.outcome = 'created' THEN n.scheduled END
      FROM unnest(v_outcomes, v_known, v_created_at, v_scheduled) AS n(outcome, known, created_at, scheduled);
END $$;
COMMENT ON FUNCTION rvq.create_tasks(
    text[], integer[], text[], integer[], text[], text[], text[], timestamptz[], text[], integer[], float8[], text[], bytea[]) IS
    'Store tasks with their sub_tasks: created, or with the known task replayed (same key and body) or conflict (other body), or refused.';
