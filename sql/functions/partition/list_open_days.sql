-- One probe of each table of open work a day, however much is open.
CREATE OR REPLACE FUNCTION rvq.list_open_days(p_days integer)
RETURNS TABLE (day integer, open_task bigint, due_delivery bigint)
LANGUAGE sql VOLATILE
AS $$
    SELECT o.day, o.open_task, o.due_delivery
      FROM (SELECT p.day,
                   (SELECT t.id FROM rvq.open_tasks AS t
                     WHERE t.id >= p.day::bigint << 48 AND t.id < (p.day + 1)::bigint << 48
                     ORDER BY t.id LIMIT 1) AS open_task,
                   (SELECT d.id FROM rvq.due_deliveries AS d
                     WHERE d.id >= p.day::bigint << 48 AND d.id < (p.day + 1)::bigint << 48
                     ORDER BY d.id LIMIT 1) AS due_delivery
              FROM rvq.list_partitions() AS p
             WHERE p.parent = 'tasks' AND p.day < rvq.day_at(rvq.clock()) - p_days) AS o
     WHERE num_nonnulls(o.open_task, o.due_delivery) > 0
     ORDER BY o.day
$$;
COMMENT ON FUNCTION rvq.list_open_days(integer) IS
    'Return the days created more than p_days ago that something open keeps whole: an open task, a pending delivery.';
