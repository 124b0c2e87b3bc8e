-- A fixed number of gates for any number of tasks: a batch over a thousand tasks must not fill the server's lock table.
-- Two tasks that share a gate only wait for each other a little more often.
CREATE OR REPLACE FUNCTION rvq.gate_of(p_id bigint) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT ((p_id >> 15) & 511)::integer $$;
COMMENT ON FUNCTION rvq.gate_of(bigint) IS 'The number of the gate of the task with this id (or sub_task''s id): its advisory lock is (2, number).';
