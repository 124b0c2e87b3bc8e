CREATE OR REPLACE FUNCTION rvq.list_deliveries_of_task(p_task_id bigint)
RETURNS TABLE (delivery_id bigint, status text, url text, event_status text, created_at timestamptz,
               next_attempt_at timestamptz, attempt integer, started_at timestamptz, ended_at timestamptz, outcome text,
               status_code integer, detail text, answer bytea)
LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
    SELECT e.id, CASE WHEN d.id IS NOT NULL THEN 'pending' ELSE l.status::text END, coalesce(d.url, t.webhook_url),
           e.status::text, e.occurred_at, d.due_at, a.attempt::integer, a.started_at, a.ended_at, a.outcome,
           a.status_code::integer, a.detail, a.answer
      FROM rvq.tasks AS t
      JOIN rvq.events AS e ON e.id >= t.id AND e.id < t.id + 16384
      LEFT JOIN rvq.due_deliveries AS d ON d.id = e.id
      LEFT JOIN LATERAL (SELECT x.status FROM rvq.delivery_attempts AS x WHERE x.id = e.id
                          ORDER BY x.attempt DESC LIMIT 1) AS l ON true
      LEFT JOIN rvq.delivery_attempts AS a ON a.id = e.id
     WHERE t.id = p_task_id AND t.webhook_url IS NOT NULL
     ORDER BY e.id, a.attempt
$$;
COMMENT ON FUNCTION rvq.list_deliveries_of_task(bigint) IS
    'Return the deliveries of a task, a row for each attempt made, or one row where none was made yet.';
