-- An id is day (15 bits) | cell (5 bits, 0 for now) | number (28 bits) | gated (1 bit) | ordinal (14 bits). A task
-- has ordinal 0, its sub_tasks have 1 to 10 000; its events count in a name space of their own. Ids are unique as long
-- as tasks come at no more than 3 000 a second, on the average until midnight. p_base is the day's, of rvq.id_days.
CREATE OR REPLACE FUNCTION rvq.new_task_id(p_time timestamptz, p_gated boolean, p_base bigint) RETURNS bigint
LANGUAGE sql VOLATILE
AS $$
    SELECT (rvq.day_at(p_time)::bigint << 48) | (((nextval('rvq.task_sequence') - p_base) & 268435455) << 15)
           | (p_gated::integer << 14)
$$;
COMMENT ON FUNCTION rvq.new_task_id(timestamptz, boolean, bigint) IS
    'Return a new task id, made of the day, a number and whether the task has a gate.';
