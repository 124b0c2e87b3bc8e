-- Ends what a claim can't take: a delivery whose event is gone, or whose attempts are all used up (they are smallint;
-- no schedule comes near, but redelivering in a loop may). Those that can be sent are left alone.
-- Locks: none of its own, the deliveries are locked. set_aside by id.
CREATE OR REPLACE FUNCTION rvq.set_aside_deliveries(p_ids bigint[], p_now timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_lost bigint[];
    v_used_up bigint[];
BEGIN
    v_lost := ARRAY(SELECT i FROM unnest(p_ids) AS i
                     WHERE NOT EXISTS (SELECT FROM rvq.events AS e WHERE e.id = i) ORDER BY i);
    v_used_up := ARRAY(SELECT d.id FROM rvq.due_deliveries AS d
                        WHERE d.id = ANY (p_ids) AND d.id <> ALL (v_lost) AND d.lease_token IS NULL ORDER BY d.id);
    PERFORM rvq.kill_deliveries(v_lost, 'internal_error', 'event_lost', p_now);
    PERFORM rvq.kill_deliveries(v_used_up, 'internal_error', 'attempts_used_up', p_now);
    PERFORM rvq.note_set_aside('delivery', v_lost, 'event_lost', p_now);
    PERFORM rvq.note_set_aside('delivery', v_used_up, 'attempts_used_up', p_now);
END $$;
COMMENT ON FUNCTION rvq.set_aside_deliveries(bigint[], timestamptz) IS
    'Make those of these locked deliveries dead that can never be sent, and write down why.';
