-- Newest first. Pending deliveries are read from where they are few; dead ones have a partial index.
CREATE OR REPLACE FUNCTION rvq.list_deliveries(
    p_status text, p_host text, p_since timestamptz, p_limit integer, p_before bigint
) RETURNS TABLE (id bigint, status text, host text, url text, attempts integer, next_attempt_at timestamptz,
                 last_outcome text, last_status_code integer, last_attempt_at timestamptz)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = 'force_custom_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT c.id, c.status, t.webhook_host, coalesce(d.url, t.webhook_url), coalesce(d.attempt, l.attempt)::integer,
                d.due_at, l.outcome, l.status_code::integer, l.ended_at
           FROM (%s) AS c(id, status)
           JOIN rvq.tasks AS t ON t.id = rvq.task_of(c.id)
           LEFT JOIN rvq.due_deliveries AS d ON d.id = c.id
           LEFT JOIN LATERAL (SELECT * FROM rvq.delivery_attempts AS a WHERE a.id = c.id
                               ORDER BY a.attempt DESC LIMIT 1) AS l ON true
          WHERE c.id < $1 AND ($2 IS NULL OR t.webhook_host = $2)
            AND ($3 IS NULL OR coalesce(l.ended_at, d.due_at) >= $3)
          ORDER BY c.id DESC LIMIT $4',
        CASE WHEN p_status = 'pending' THEN 'SELECT d.id, ''pending'' FROM rvq.due_deliveries AS d'
             WHEN p_status IN ('delivered', 'dead') THEN format(
                'SELECT a.id, a.status::text FROM rvq.delivery_attempts AS a WHERE a.status = %L
                    AND NOT EXISTS (SELECT FROM rvq.delivery_attempts AS x WHERE x.id = a.id AND x.attempt > a.attempt)
                    AND NOT EXISTS (SELECT FROM rvq.due_deliveries AS d WHERE d.id = a.id)', p_status)
             ELSE 'SELECT e.id, coalesce(CASE WHEN d.id IS NOT NULL THEN ''pending'' END,
                          (SELECT a.status::text FROM rvq.delivery_attempts AS a WHERE a.id = e.id
                            ORDER BY a.attempt DESC LIMIT 1))
                     FROM rvq.events AS e JOIN rvq.tasks AS t ON t.id = rvq.task_of(e.id)
                     LEFT JOIN rvq.due_deliveries AS d ON d.id = e.id WHERE t.webhook_url IS NOT NULL' END)
    USING p_before, p_host, p_since, p_limit;
END $$;
COMMENT ON FUNCTION rvq.list_deliveries(text, text, timestamptz, integer, bigint) IS
    'Return deliveries with an id under p_before, newest first; a status, host or since that is not NULL narrows them.';
