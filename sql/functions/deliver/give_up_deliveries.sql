-- A delivery whose turn never came, behind a host that has been dead for weeks, is given up: it would keep its whole
-- day for ever. An admin can send it again. The ledger says that the time was up before anything was sent.
-- Locks: door, due_deliveries by id with SKIP LOCKED; then it only inserts.
CREATE OR REPLACE FUNCTION rvq.give_up_deliveries(p_days integer, p_limit integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_now timestamptz;
    v_ids bigint[];
BEGIN
    PERFORM rvq.hold_door();
    v_now := rvq.clock();
    v_ids := ARRAY(
        SELECT d.id
          FROM rvq.list_due_hosts() AS h
          CROSS JOIN LATERAL (
              SELECT o.id FROM rvq.due_deliveries AS o
               WHERE o.host = h.host AND o.lease_token IS NULL AND o.due_at <= v_now - make_interval(days => p_days)
               ORDER BY o.due_at LIMIT p_limit) AS d
         LIMIT p_limit);
    PERFORM rvq.kill_deliveries(ARRAY(
        SELECT d.id FROM rvq.due_deliveries AS d
         WHERE d.id = ANY (v_ids) AND d.lease_token IS NULL ORDER BY d.id FOR UPDATE SKIP LOCKED),
        'timeout', 'never_sent', v_now);
    RETURN cardinality(v_ids);
END $$;
COMMENT ON FUNCTION rvq.give_up_deliveries(integer, integer) IS
    'Make deliveries dead that have been due for p_days without being sent, a batch at a time; return how many.';
