-- In order of event and attempt, after an attempt of a delivery (0: one that had none). The page ends once it has
-- p_bytes of answers, which are up to 8 KiB each.
CREATE OR REPLACE FUNCTION rvq.list_deliveries_of_task(
    p_task_id bigint, p_limit integer DEFAULT 1000, p_after_id bigint DEFAULT 0, p_after_attempt integer DEFAULT 0,
    p_bytes bigint DEFAULT NULL
) RETURNS TABLE (delivery_id bigint, status text, url text, event_status text, created_at timestamptz,
                 next_attempt_at timestamptz, attempt integer, started_at timestamptz, ended_at timestamptz,
                 outcome text, status_code integer, detail text, answer bytea)
LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
    WITH listed AS (
        SELECT e.id, CASE WHEN d.id IS NOT NULL THEN 'pending' ELSE l.status::text END AS status,
               coalesce(d.url, t.webhook_url) AS url, e.status::text AS event_status, e.occurred_at, d.due_at,
               a.attempt::integer AS attempt, a.started_at, a.ended_at, a.outcome,
               a.status_code::integer AS status_code, a.detail, a.answer
          FROM rvq.tasks AS t
          JOIN rvq.events AS e ON e.id >= t.id AND e.id < t.id + 16384
          LEFT JOIN rvq.due_deliveries AS d ON d.id = e.id
          LEFT JOIN LATERAL (SELECT x.status FROM rvq.delivery_attempts AS x WHERE x.id = e.id
                              ORDER BY x.attempt DESC LIMIT 1) AS l ON true
          LEFT JOIN rvq.delivery_attempts AS a ON a.id = e.id
         WHERE t.id = p_task_id AND t.webhook_url IS NOT NULL
           AND (e.id, coalesce(a.attempt, 0)) > (p_after_id, p_after_attempt)
         ORDER BY e.id, a.attempt LIMIT p_limit),
    measured AS (
        SELECT l.*, coalesce(sum(octet_length(l.answer)) OVER (
                        ORDER BY l.id, l.attempt ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before
          FROM listed AS l)
    SELECT m.id, m.status, m.url, m.event_status, m.occurred_at, m.due_at, m.attempt, m.started_at, m.ended_at,
           m.outcome, m.status_code, m.detail, m.answer
      FROM measured AS m WHERE p_bytes IS NULL OR m.bytes_before < p_bytes ORDER BY m.id, m.attempt
$$;
COMMENT ON FUNCTION rvq.list_deliveries_of_task(bigint, integer, bigint, integer, bigint) IS
    'Return a page of the deliveries of a task, a row for each attempt made, or one row where none was made yet.';
