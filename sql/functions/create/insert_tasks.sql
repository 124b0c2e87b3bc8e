-- Inserts those of the tasks whose outcome is 'created'; the arrays are those of rvq.create_tasks. A clock that was set
-- back must not put sub_tasks below the floor where claim starts to look, hence the look at the floors. The clock is
-- read within the one statement, so after it has waited for any table: no wait is a part of a deadline.
-- Locks: none. It only inserts.
CREATE OR REPLACE FUNCTION rvq.insert_tasks(
    p_ids bigint[], p_outcomes text[], p_queues text[], p_totals integer[], p_payloads text[],
    p_max_attempts integer[], p_metadata text[], p_webhook_urls text[], p_webhook_hosts text[],
    p_not_before timestamptz[], p_policies text[], p_required integer[], p_deadline_seconds float8[]
) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_starts integer[] := '{0}';
    v_end integer := 0;
    v_total integer;
    v_now timestamptz;
BEGIN
    FOREACH v_total IN ARRAY p_totals LOOP
        v_end := v_end + v_total;
        v_starts := v_starts || v_end;
    END LOOP;
    WITH moment AS MATERIALIZED (SELECT rvq.clock() AS now),
    task AS (
        SELECT m.now, i AS position, p_ids[i] AS id, p_totals[i] AS total, p_queues[i] AS queue,
               CASE WHEN p_not_before[i] > m.now THEN p_not_before[i] END AS due_at,
               p_policies[i]::rvq.completion_policy AS policy, p_required[i] AS required,
               p_deadline_seconds[i] AS deadline_seconds, p_webhook_urls[i] AS url, p_webhook_hosts[i] AS host,
               p_metadata[i] AS metadata
          FROM moment AS m CROSS JOIN generate_series(1, cardinality(p_ids)) AS i WHERE p_outcomes[i] = 'created'),
    fact AS (
        INSERT INTO rvq.tasks (id, created_at, deadline_seconds, total, required, policy, queue, webhook_url,
                               webhook_host, metadata)
        SELECT t.id, t.now, t.deadline_seconds, t.total, t.required, t.policy, t.queue, t.url, t.host, t.metadata
          FROM task AS t),
    open_task AS (
        INSERT INTO rvq.open_tasks (id, created_at, deadline_at, total, unfinished, required, policy, queue,
                                    webhook_url, webhook_host, metadata)
        SELECT t.id, t.now, coalesce(t.due_at, t.now) + make_interval(secs => t.deadline_seconds), t.total, t.total,
               t.required, t.policy, t.queue, t.url, t.host, t.metadata
          FROM task AS t),
    counted AS (
        INSERT INTO rvq.counter_deltas (queue, scheduled, queued, tasks_open)
        SELECT t.queue, CASE WHEN t.due_at IS NOT NULL THEN sum(t.total) END,
               CASE WHEN t.due_at IS NULL THEN sum(t.total) END, count(*)
          FROM task AS t GROUP BY t.queue, t.due_at),
    sub_task AS (
        SELECT t.id + s.number - v_starts[t.position] AS id, coalesce(t.due_at, t.now) AS queued_at, t.due_at,
               t.queue, s.max_attempts, s.payload
          FROM task AS t CROSS JOIN LATERAL (
              SELECT i AS number, p_max_attempts[i] AS max_attempts, p_payloads[i] AS payload
                FROM generate_series(v_starts[t.position] + 1, v_starts[t.position + 1]) AS i) AS s),
    sub_fact AS (
        INSERT INTO rvq.sub_tasks (id, queued_at, max_attempts, payload)
        SELECT s.id, s.queued_at, s.max_attempts, s.payload FROM sub_task AS s),
    open_sub_task AS (
        INSERT INTO rvq.open_sub_tasks (id, queued_at, due_at, status, max_attempts, requeued, queue)
        SELECT s.id, s.queued_at, s.due_at,
               CASE WHEN s.due_at IS NULL THEN 'queued' ELSE 'scheduled' END::rvq.sub_task_status, s.max_attempts,
               s.queue = ANY (ARRAY(SELECT q.queue FROM rvq.queues AS q CROSS JOIN moment AS m
                                     WHERE q.queue = ANY (p_queues) AND q.claim_floor > m.now)), s.queue
          FROM sub_task AS s)
    SELECT m.now INTO v_now FROM moment AS m;
    RETURN v_now;
END $$;
COMMENT ON FUNCTION rvq.insert_tasks(
    bigint[], text[], text[], integer[], text[], integer[], text[], text[], text[], timestamptz[], text[], integer[],
    float8[]
) IS 'Insert new tasks and their sub_tasks, and count them; return when they were created.';
