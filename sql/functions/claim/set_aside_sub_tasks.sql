-- A sub_task whose payload is gone can't be worked. It gets a lease that nobody holds and that is over (-infinity),
-- with its last attempt: rvq.expire_leases then ends it as failed, and with it the task where it is the last, under
-- all the locks that takes. A claim holds none of those.
-- Locks: none of its own, the sub_tasks are locked. set_aside by id.
CREATE OR REPLACE FUNCTION rvq.set_aside_sub_tasks(p_queue text, p_ids bigint[], p_payloads text[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_random text := rvq.random_hex();
    v_lost bigint[] := ARRAY(SELECT t.id FROM unnest(p_ids, p_payloads) AS t(id, payload)
                              WHERE t.payload IS NULL ORDER BY t.id);
BEGIN
    UPDATE rvq.open_sub_tasks AS s
       SET status = 'claimed', attempt = s.max_attempts, worker_id = NULL,
           lease_token = rvq.lease_token(v_random, s.id), lease_expires_at = '-infinity'
     WHERE s.id = ANY (v_lost);
    INSERT INTO rvq.counter_deltas (queue, queued, claimed)
    VALUES (p_queue, -cardinality(v_lost), cardinality(v_lost));
    PERFORM rvq.note_set_aside('sub_task', v_lost, 'payload_lost', rvq.clock());
    RETURN ARRAY(SELECT t.id FROM unnest(p_ids, p_payloads) WITH ORDINALITY AS t(id, payload, position)
                  WHERE t.payload IS NOT NULL ORDER BY t.position);
END $$;
COMMENT ON FUNCTION rvq.set_aside_sub_tasks(text, bigint[], text[]) IS
    'Let the sub_tasks fail whose payload is gone, and write that down; return those that have one.';
