-- Newest first. Each status is read from where it is few: open tasks, or events, of which a partial index has the
-- unsuccessful ones. Open tasks may still be millions, all queued, and a handful running among them: which these are is
-- found out beforehand, and only what is listed is viewed.
CREATE OR REPLACE FUNCTION rvq.list_tasks(p_status text, p_limit integer, p_before bigint) RETURNS SETOF rvq.task_view
LANGUAGE plpgsql STABLE
SET plan_cache_mode = 'force_custom_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_attempted bigint[];
BEGIN
    IF p_status IS NULL THEN
        RETURN QUERY SELECT v.* FROM (SELECT t AS task FROM rvq.tasks AS t WHERE t.id < p_before
                                       ORDER BY t.id DESC LIMIT p_limit) AS l
                       CROSS JOIN LATERAL rvq.view_task(l.task) AS v ORDER BY v.id DESC;
    ELSIF p_status IN ('queued', 'running') THEN
        v_attempted := ARRAY(SELECT t.id FROM rvq.list_attempted_tasks() AS t(id));
        RETURN QUERY SELECT v.* FROM (SELECT o.id FROM rvq.open_tasks AS o
                                       WHERE o.id < p_before
                                         AND (o.unfinished < o.total OR o.id = ANY (v_attempted))
                                             = (p_status = 'running')
                                       ORDER BY o.id DESC LIMIT p_limit) AS l
                       JOIN rvq.tasks AS t ON t.id = l.id CROSS JOIN LATERAL rvq.view_task(t) AS v ORDER BY v.id DESC;
    ELSE
        RETURN QUERY EXECUTE format(
            'SELECT v.* FROM rvq.events AS e JOIN rvq.tasks AS t ON t.id = rvq.task_of(e.id)
               CROSS JOIN LATERAL rvq.view_task(t) AS v
              WHERE e.id < $1 AND e.status = %L AND v.status = %L
                AND NOT EXISTS (SELECT FROM rvq.events AS later
                                 WHERE later.id > e.id AND later.id < rvq.task_of(e.id) + 16384)
              ORDER BY e.id DESC LIMIT $2', p_status, p_status)
        USING p_before, p_limit;
    END IF;
END $$;
COMMENT ON FUNCTION rvq.list_tasks(text, integer, bigint) IS
    'Return tasks with an id under p_before, newest first, of one status or of any.';
