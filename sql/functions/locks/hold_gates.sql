-- A task whose policy may cancel its siblings is changed by one transaction at a time, the holder of its gate. Only so
-- can that transaction know, before it locks any sub_task, whether it will need the siblings too, and lock all of them
-- in one pass in the one order. Tasks with policy "all" have no gate, and their ids say so.
-- Locks: gates by number. They come before every sub_task.
CREATE OR REPLACE FUNCTION rvq.hold_gates(p_ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_id bigint;
    v_any boolean := false;
    v_gated bigint[];
    v_gate integer;
BEGIN
    FOREACH v_id IN ARRAY p_ids LOOP
        v_any := rvq.is_gated(v_id);
        EXIT WHEN v_any;
    END LOOP;
    IF NOT v_any THEN
        RETURN '{}';
    END IF;
    v_gated := ARRAY(SELECT DISTINCT rvq.task_of(i) FROM unnest(p_ids) AS i WHERE rvq.is_gated(i) ORDER BY 1);
    FOR v_gate IN SELECT DISTINCT rvq.gate_of(i) FROM unnest(v_gated) AS i ORDER BY 1 LOOP
        PERFORM pg_advisory_xact_lock(2, v_gate);
    END LOOP;
    RETURN v_gated;
END $$;
COMMENT ON FUNCTION rvq.hold_gates(bigint[]) IS
    'Hold the gates of those tasks that have one, given ids of tasks or sub_tasks; return these tasks.';
