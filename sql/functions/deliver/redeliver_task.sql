-- Locks: door (before it reads: reset waits for readers), then as rvq.redeliver.
CREATE OR REPLACE FUNCTION rvq.redeliver_task(p_task_id bigint) RETURNS text
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_id bigint;
BEGIN
    PERFORM rvq.hold_door();
    IF NOT EXISTS (SELECT FROM rvq.tasks AS t WHERE t.id = p_task_id) THEN
        RETURN 'unknown';
    END IF;
    SELECT e.id INTO v_id FROM rvq.events AS e WHERE e.id >= p_task_id AND e.id < p_task_id + 16384
     ORDER BY e.id DESC LIMIT 1;
    RETURN (SELECT coalesce(nullif(r.outcome, 'unknown'), 'nothing_to_send')
              FROM unnest(rvq.redeliver(ARRAY[v_id])) AS r(outcome));
END $$;
COMMENT ON FUNCTION rvq.redeliver_task(bigint) IS
    'Send the last event of a task once more; return redelivered, in_flight, too_often, nothing_to_send, unknown.';
