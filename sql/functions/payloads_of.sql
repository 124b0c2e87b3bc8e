-- The partition is named, not pruned: a cached plan over the parent would lock every partition at each call. The
-- statement is planned each time, so it is the plainest there is: one index, no join.
-- Callers: rvq.claim_sub_tasks
CREATE OR REPLACE FUNCTION rvq.payloads_of(p_ids bigint[]) RETURNS text[]
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_row integer := 0;
    v_id bigint;
    v_payload text;
    v_payloads text[] := '{}';
BEGIN
    FOR v_day IN rvq.day_of(p_ids[1]) .. rvq.day_of(p_ids[cardinality(p_ids)]) LOOP
        CONTINUE WHEN to_regclass('rvq.sub_tasks_' || v_day) IS NULL;
        FOR v_id, v_payload IN EXECUTE format(
            'SELECT s.id, s.payload FROM rvq.sub_tasks_%s AS s WHERE s.id = ANY ($1) ORDER BY s.id', v_day) USING p_ids
        LOOP
            v_row := v_row + 1;
            EXIT WHEN v_id <> p_ids[v_row];
            v_payloads[v_row] := v_payload;
        END LOOP;
    END LOOP;
    -- A payload that is not there must not shift the others to the wrong leases.
    IF cardinality(v_payloads) < cardinality(p_ids) THEN
        RAISE data_corrupted USING MESSAGE = format('sub_task %s has no payload', p_ids[cardinality(v_payloads) + 1]);
    END IF;
    RETURN v_payloads;
END $$;
COMMENT ON FUNCTION rvq.payloads_of(bigint[]) IS 'The payloads of these sub_tasks, whose ids ascend.';
