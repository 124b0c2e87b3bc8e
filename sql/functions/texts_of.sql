-- The partition is named, not pruned: a cached plan over the parent would lock every partition at each call. The
-- statement is planned each time, so it is the plainest there is: one index, no join.
-- Callers: rvq.claim_sub_tasks, rvq.claim_deliveries
CREATE OR REPLACE FUNCTION rvq.texts_of(p_table text, p_column text, p_ids bigint[]) RETURNS text[]
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_place integer := 1;
    v_id bigint;
    v_text text;
    v_texts text[] := array_fill(NULL::text, ARRAY[cardinality(p_ids)]);
BEGIN
    FOR v_day IN rvq.day_of(p_ids[1]) .. rvq.day_of(p_ids[cardinality(p_ids)]) LOOP
        CONTINUE WHEN to_regclass('rvq.' || p_table || '_' || v_day) IS NULL;
        FOR v_id, v_text IN EXECUTE format(
            'SELECT f.id, f.%I FROM rvq.%I AS f WHERE f.id = ANY ($1) ORDER BY f.id', p_column, p_table || '_' || v_day) USING p_ids
        LOOP
            WHILE p_ids[v_place] < v_id LOOP
                v_place := v_place + 1;
            END LOOP;
            v_texts[v_place] := v_text;
        END LOOP;
    END LOOP;
    RETURN v_texts;
END $$;
COMMENT ON FUNCTION rvq.texts_of(text, text, bigint[]) IS
    'A text column of a table of facts (payloads of sub_tasks, bodies of events) for ids that ascend; NULL where there is no row.';
