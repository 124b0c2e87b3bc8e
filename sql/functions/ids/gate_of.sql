-- There is a fixed number of gates for any number of tasks: a batch over a thousand tasks must not fill the server's
-- lock table. Two tasks that share a gate only wait for each other a little more often.
CREATE OR REPLACE FUNCTION rvq.gate_of(p_id bigint) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT ((p_id >> 15) & 511)::integer $$;
COMMENT ON FUNCTION rvq.gate_of(bigint) IS
    'Return the number of a task''s gate, given its id or a sub_task''s: the gate is the advisory lock (2, number).';
