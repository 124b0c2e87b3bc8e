-- The gates are held, so the counts read here can't change. The result may hold too many sub_tasks (a report may turn
-- out stale), which costs only locks. It never holds too few: every policy is monotone in successes and failures.
CREATE OR REPLACE FUNCTION rvq.siblings_to_lock(
    p_gated bigint[], p_ids bigint[], p_succeeded boolean[]
) RETURNS bigint[]
LANGUAGE sql VOLATILE
AS $$
    SELECT coalesce(array_agg(s.id), '{}')
      FROM (SELECT rvq.task_of(r.id) AS task_id,
                   count(*) FILTER (WHERE r.succeeded)::integer AS succeeded,
                   count(*) FILTER (WHERE NOT r.succeeded)::integer AS failed
              FROM unnest(p_ids, p_succeeded) AS r(id, succeeded)
             WHERE rvq.task_of(r.id) = ANY (p_gated) GROUP BY 1) AS r
      JOIN rvq.open_tasks AS t ON t.id = r.task_id
      JOIN rvq.open_sub_tasks AS s ON s.id > t.id AND s.id < t.id + 16384
     WHERE rvq.decide_task(t.policy, t.required, t.unfinished - r.succeeded - r.failed,
                           t.succeeded + r.succeeded, t.failed + r.failed) IS NOT NULL
$$;
COMMENT ON FUNCTION rvq.siblings_to_lock(bigint[], bigint[], boolean[]) IS
    'Return the open sub_tasks of those gated tasks that these reports may end.';
