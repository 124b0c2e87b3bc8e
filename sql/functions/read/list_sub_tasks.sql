-- In the order in which the partner gave them. One batch may put a sub_task back and, as a sibling failed, cancel it at
-- the same moment: cancelled is the later one. A not_before that 0.1.0 took may lie beyond what clients can read.
CREATE OR REPLACE FUNCTION rvq.list_sub_tasks(p_task_id bigint, p_status text, p_limit integer, p_after bigint)
RETURNS TABLE (id bigint, status text, attempt integer, max_attempts integer, payload text, result text, error text,
               queued_at timestamptz, finished_at timestamptz, worker_id text)
LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
    SELECT s.id, v.status, coalesce(o.attempt, l.attempt)::integer,
           coalesce(o.max_attempts, s.max_attempts)::integer, s.payload,
           CASE WHEN o.id IS NULL THEN l.result END, l.error, least(s.queued_at, '9999-12-31 00:00:00+00'),
           CASE WHEN o.id IS NULL THEN l.ended_at END, coalesce(o.worker_id, l.worker_id)
      FROM rvq.sub_tasks AS s
      LEFT JOIN rvq.open_sub_tasks AS o ON o.id = s.id
      LEFT JOIN LATERAL (SELECT * FROM rvq.outcomes AS c
                          WHERE c.id = s.id AND (o.id IS NOT NULL OR c.status <> 'retrying')
                          ORDER BY c.attempt DESC, c.ended_at DESC, c.status = 'retrying' LIMIT 1) AS l ON true
      CROSS JOIN LATERAL (SELECT CASE WHEN o.id IS NOT NULL THEN o.status::text ELSE l.status::text END AS status) AS v
     WHERE s.id > greatest(p_after, p_task_id) AND s.id <= p_task_id | 16383 AND p_task_id & 16383 = 0
       AND (p_status IS NULL OR v.status = p_status)
     ORDER BY s.id LIMIT p_limit
$$;
COMMENT ON FUNCTION rvq.list_sub_tasks(bigint, text, integer, bigint) IS
    'Return sub_tasks of a task with an id over p_after, in order, of one status or of any.';
