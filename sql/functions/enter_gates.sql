-- A task whose policy may cancel its siblings is changed by one transaction at a time, the holder of its gate: only so
-- can that transaction know, before it locks any sub_task, whether it will need the siblings too, and lock all of
-- them in one pass in the one order. Tasks with policy "all" have no gate.
-- Locks: gates by task id. They come before every sub_task.
CREATE OR REPLACE FUNCTION rvq.enter_gates(p_ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_gated bigint[];
    v_task_id bigint;
BEGIN
    SELECT array_agg(t.id ORDER BY t.id) INTO v_gated
      FROM (SELECT DISTINCT rvq.task_of(i) AS id FROM unnest(p_ids) AS i) AS i
      JOIN rvq.open_tasks AS t ON t.id = i.id AND t.policy <> 'all';
    IF v_gated IS NULL THEN
        RETURN '{}';
    END IF;
    FOREACH v_task_id IN ARRAY v_gated LOOP
        PERFORM pg_advisory_xact_lock(v_task_id);
    END LOOP;
    RETURN v_gated;
END $$;
COMMENT ON FUNCTION rvq.enter_gates(bigint[]) IS 'Hold the gates of the tasks of these sub_tasks (or of these tasks) that have one; returns those tasks.';
