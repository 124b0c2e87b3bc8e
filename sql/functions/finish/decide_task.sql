-- It is inlined where it is called, so nothing in it may be less than IMMUTABLE, such as a cast of a whole CASE to the
-- enum.
CREATE OR REPLACE FUNCTION rvq.decide_task(
    p_policy rvq.completion_policy, p_required integer, p_unfinished integer, p_succeeded integer, p_failed integer
) RETURNS rvq.task_status
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN p_policy = 'fail_fast' AND p_failed > 0 THEN 'failed'::rvq.task_status
        WHEN p_policy = 'at_least' AND p_succeeded >= p_required THEN 'succeeded'::rvq.task_status
        WHEN p_policy = 'at_least' AND p_succeeded + p_unfinished < p_required THEN 'failed'::rvq.task_status
        WHEN p_unfinished > 0 THEN NULL
        WHEN p_failed > 0 THEN 'failed'::rvq.task_status
        ELSE 'succeeded'::rvq.task_status
    END
$$;
COMMENT ON FUNCTION rvq.decide_task(rvq.completion_policy, integer, integer, integer, integer) IS
    'Return how a task with these counts ends under its policy; NULL while it stays open.';
