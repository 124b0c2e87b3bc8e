-- An id is day (15 bits) | sequence (33 bits) | gated (1 bit) | ordinal (14 bits). A task has ordinal 0, its sub_tasks
-- have 1 to 10 000; its events count from 0 in a name space of their own. Ids are unique as long as a day has under 8
-- billion tasks.
CREATE OR REPLACE FUNCTION rvq.new_task_id(p_time timestamptz, p_gated boolean) RETURNS bigint
LANGUAGE sql VOLATILE
AS $$ SELECT (rvq.day_at(p_time)::bigint << 48) | (nextval('rvq.task_sequence') << 15) | (p_gated::integer << 14) $$;
COMMENT ON FUNCTION rvq.new_task_id(timestamptz, boolean) IS
    'Return a new task id, made of the day, a sequence number and whether the task has a gate.';
