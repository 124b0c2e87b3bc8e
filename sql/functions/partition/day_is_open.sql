CREATE OR REPLACE FUNCTION rvq.day_is_open(p_day integer) RETURNS boolean
LANGUAGE sql VOLATILE
AS $$
    SELECT EXISTS (SELECT FROM rvq.open_tasks AS t
                    WHERE t.id >= p_day::bigint << 48 AND t.id < (p_day + 1)::bigint << 48)
        OR EXISTS (SELECT FROM rvq.open_sub_tasks AS s
                    WHERE s.id >= p_day::bigint << 48 AND s.id < (p_day + 1)::bigint << 48)
        OR EXISTS (SELECT FROM rvq.due_deliveries AS d
                    WHERE d.id >= p_day::bigint << 48 AND d.id < (p_day + 1)::bigint << 48)
$$;
COMMENT ON FUNCTION rvq.day_is_open(integer) IS
    'Tell whether a task made on that day is unfinished, or a delivery of one is pending.';
