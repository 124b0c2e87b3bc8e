-- An id is day (15 bits) | sequence (34 bits) | ordinal (14 bits). A task has ordinal 0, its sub_tasks 1 to 10 000;
-- its events count from 0 in a name space of their own. Unique as long as a day has under 17 billion tasks.
CREATE OR REPLACE FUNCTION rvq.new_task_id(p_time timestamptz) RETURNS bigint
LANGUAGE sql VOLATILE
AS $$ SELECT (rvq.day_at(p_time)::bigint << 48) | (nextval('rvq.task_sequence') << 14) $$;
COMMENT ON FUNCTION rvq.new_task_id(timestamptz) IS 'A new task id, made of the day and a sequence.';
