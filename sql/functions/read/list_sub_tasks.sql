-- In the order in which the partner gave them. One batch may put a sub_task back and, as a sibling failed, cancel it at
-- the same moment: cancelled is the later one. A not_before that 0.1.0 took may lie beyond what clients can read.
-- The page ends once it has p_bytes of payloads, results and errors, which are up to 1 MiB each.
CREATE OR REPLACE FUNCTION rvq.list_sub_tasks(
    p_task_id bigint, p_status text, p_limit integer, p_after bigint, p_bytes bigint DEFAULT NULL
) RETURNS TABLE (id bigint, status text, attempt integer, max_attempts integer, payload text, result text, error text,
                 queued_at timestamptz, finished_at timestamptz, worker_id text)
LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
    WITH listed AS (
        SELECT s.id, v.status, coalesce(o.attempt, l.attempt)::integer AS attempt,
               coalesce(o.max_attempts, s.max_attempts)::integer AS max_attempts, s.payload,
               CASE WHEN o.id IS NULL THEN l.result END AS result, l.error, s.queued_at,
               CASE WHEN o.id IS NULL THEN l.ended_at END AS ended_at, coalesce(o.worker_id, l.worker_id) AS worker_id
          FROM rvq.sub_tasks AS s
          LEFT JOIN rvq.open_sub_tasks AS o ON o.id = s.id
          LEFT JOIN LATERAL (SELECT * FROM rvq.outcomes AS c
                              WHERE c.id = s.id AND (o.id IS NOT NULL OR c.status <> 'retrying')
                              ORDER BY c.attempt DESC, c.status = 'retrying', c.status DESC, c.ended_at DESC
                              LIMIT 1) AS l ON true
          CROSS JOIN LATERAL (SELECT CASE WHEN o.id IS NOT NULL THEN o.status::text ELSE l.status::text END
                                  AS status) AS v
         WHERE s.id > greatest(p_after, p_task_id) AND s.id <= p_task_id | 16383 AND p_task_id & 16383 = 0
           AND (p_status IS NULL OR v.status = p_status)
         ORDER BY s.id LIMIT p_limit),
    measured AS (
        SELECT l.*, coalesce(sum(octet_length(l.payload) + coalesce(octet_length(l.result), 0)
                                 + coalesce(octet_length(l.error), 0)) OVER (
                        ORDER BY l.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before
          FROM listed AS l)
    SELECT m.id, m.status, m.attempt, m.max_attempts, m.payload, m.result, m.error,
           least(m.queued_at, '9999-12-31 00:00:00+00'), m.ended_at, m.worker_id
      FROM measured AS m WHERE p_bytes IS NULL OR m.bytes_before < p_bytes ORDER BY m.id
$$;
COMMENT ON FUNCTION rvq.list_sub_tasks(bigint, text, integer, bigint, bigint) IS
    'Return sub_tasks of a task with an id over p_after, in order, of one status or of any.';
