-- Reads the payloads of the first of these sub_tasks, 128 at a time, until there are p_bytes. The sub_tasks that are
-- left out were locked for nothing.
CREATE OR REPLACE FUNCTION rvq.payloads_within(p_ids bigint[], p_bytes integer) RETURNS text[]
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_payloads text[] := '{}';
BEGIN
    FOR v_first IN 1 .. cardinality(p_ids) BY 128 LOOP
        v_payloads := v_payloads || rvq.payloads_of(p_ids[v_first:v_first + 127]);
        EXIT WHEN pg_column_size(v_payloads) >= p_bytes;
    END LOOP;
    RETURN v_payloads;
END $$;
COMMENT ON FUNCTION rvq.payloads_within(bigint[], integer) IS
    'Return payloads by id, in the order of the ids, and no more once there are this many bytes.';
