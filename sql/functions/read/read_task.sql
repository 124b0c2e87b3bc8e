CREATE OR REPLACE FUNCTION rvq.read_task(p_task_id bigint) RETURNS SETOF rvq.task_view
LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$ SELECT v.* FROM rvq.tasks AS t CROSS JOIN LATERAL rvq.view_task(t) AS v WHERE t.id = p_task_id $$;
COMMENT ON FUNCTION rvq.read_task(bigint) IS 'Return a task and where it stands; no row when it is unknown.';
