-- A dispatcher died, or lost the database, between its claim and its record: whether the receiver saw the event is not
-- known. The ledger says so, and the delivery is due at once, under the same webhook-id.
-- Locks: door, due_deliveries by id with SKIP LOCKED.
CREATE OR REPLACE FUNCTION rvq.expire_delivery_leases(p_limit integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_now timestamptz;
    v_expired bigint[];
BEGIN
    PERFORM rvq.hold_door();
    v_now := rvq.clock();
    v_expired := ARRAY(SELECT d.id FROM rvq.due_deliveries AS d
                        WHERE d.lease_token IS NOT NULL AND d.lease_expires_at <= v_now
                        ORDER BY d.host, d.lease_expires_at LIMIT p_limit);
    SELECT array_agg(l.id) FILTER (WHERE l.lease_expires_at <= v_now) INTO v_expired
      FROM (SELECT d.id, d.lease_expires_at FROM rvq.due_deliveries AS d
             WHERE d.id = ANY (v_expired) ORDER BY d.id FOR UPDATE SKIP LOCKED) AS l;
    INSERT INTO rvq.delivery_attempts (id, started_at, ended_at, attempt, status, queue, outcome, detail)
    SELECT d.id, d.claimed_at, v_now, d.attempt, 'pending', d.queue, 'unknown', '{"reason":"dispatcher_lost"}'
      FROM rvq.due_deliveries AS d WHERE d.id = ANY (v_expired);
    UPDATE rvq.due_deliveries AS d
       SET due_at = v_now, wait_seconds = NULL, lease_token = NULL, lease_expires_at = NULL, claimed_at = NULL
     WHERE d.id = ANY (v_expired);
    RETURN coalesce(cardinality(v_expired), 0);
END $$;
COMMENT ON FUNCTION rvq.expire_delivery_leases(integer) IS
    'Make the deliveries of dispatchers that vanished due at once; return how many.';
