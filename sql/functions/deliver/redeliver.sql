-- Makes deliveries pending once more, their schedule from its start, under the same webhook-id. One that is pending
-- already is due now. One that is being sent is left alone, and the answer says so: whoever asked may ask again.
-- Who asks in a loop is stopped at a thousand attempts: a hundred times the whole schedule, 8 MiB of ledger at most,
-- and far from what the number of an attempt can hold.
-- Locks: door, due_deliveries by id (insert or update).
CREATE OR REPLACE FUNCTION rvq.redeliver(p_ids bigint[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_id bigint;
    v_ids bigint[] := '{}';
    v_outcome text;
    v_outcomes text[] := '{}';
    v_last rvq.delivery_attempts;
    v_task rvq.tasks;
BEGIN
    PERFORM rvq.hold_door();
    FOR v_id IN SELECT DISTINCT i FROM unnest(p_ids) AS i ORDER BY 1 LOOP
        SELECT * INTO v_task FROM rvq.tasks AS t WHERE t.id = rvq.task_of(v_id);
        v_outcome := CASE WHEN v_task.webhook_url IS NULL OR NOT EXISTS (SELECT FROM rvq.events AS e WHERE e.id = v_id)
                          THEN 'unknown'
                          WHEN EXISTS (SELECT FROM rvq.delivery_attempts AS a WHERE a.id = v_id AND a.attempt >= 1000)
                          THEN 'too_often' END;
        WHILE v_outcome IS NULL LOOP
            INSERT INTO rvq.due_deliveries (id, due_at, queue, host, url)
            VALUES (v_id, rvq.clock(), v_task.queue, v_task.webhook_host, v_task.webhook_url) ON CONFLICT DO NOTHING;
            IF FOUND THEN
                -- It is read only now: the insert waited for whoever was settling it, and nobody can settle it before
                -- we are done.
                SELECT * INTO v_last FROM rvq.delivery_attempts AS a WHERE a.id = v_id ORDER BY a.attempt DESC LIMIT 1;
                UPDATE rvq.due_deliveries AS d SET attempt = coalesce(v_last.attempt, 0) WHERE d.id = v_id;
                INSERT INTO rvq.counter_deltas (queue, deliveries_pending, deliveries_delivered, deliveries_dead)
                VALUES (v_task.queue, 1, -(v_last.status = 'delivered')::integer, -(v_last.status = 'dead')::integer);
                v_outcome := 'redelivered';
                EXIT;
            END IF;
            UPDATE rvq.due_deliveries AS d SET due_at = rvq.clock(), wait_seconds = NULL, tries = 0
             WHERE d.id = v_id AND d.lease_token IS NULL;
            -- If neither, it was settled after the insert had met it, and is not pending any more: try once more.
            v_outcome := CASE WHEN FOUND THEN 'redelivered'
                              WHEN EXISTS (SELECT FROM rvq.due_deliveries AS d WHERE d.id = v_id) THEN 'in_flight' END;
        END LOOP;
        v_ids := v_ids || v_id;
        v_outcomes := v_outcomes || v_outcome;
    END LOOP;
    RETURN ARRAY(SELECT v_outcomes[array_position(v_ids, i.id)]
                   FROM unnest(p_ids) WITH ORDINALITY AS i(id, position) ORDER BY i.position);
END $$;
COMMENT ON FUNCTION rvq.redeliver(bigint[]) IS
    'Send these deliveries once more; return one outcome each, in order: redelivered, in_flight, too_often, unknown.';
