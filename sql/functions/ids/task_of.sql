CREATE OR REPLACE FUNCTION rvq.task_of(p_id bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_id & -16384 $$;
COMMENT ON FUNCTION rvq.task_of(bigint) IS
    'Return the task of a sub_task, an event or a delivery: its id without the 14 low bits.';
