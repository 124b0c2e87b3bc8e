-- Gives back deliveries that were not started: no attempt is spent, and nothing is in the ledger.
-- Locks: door, due_deliveries by id.
CREATE OR REPLACE FUNCTION rvq.release_deliveries(p_ids bigint[], p_lease_tokens uuid[]) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_released integer;
BEGIN
    PERFORM rvq.hold_door();
    PERFORM 1 FROM rvq.due_deliveries AS d WHERE d.id = ANY (p_ids) ORDER BY d.id FOR UPDATE;
    UPDATE rvq.due_deliveries AS d
       SET attempt = d.attempt - 1, tries = d.tries - 1, lease_token = NULL, lease_expires_at = NULL, claimed_at = NULL
      FROM unnest(p_ids, p_lease_tokens) AS l(id, lease_token) WHERE d.id = l.id AND d.lease_token = l.lease_token;
    GET DIAGNOSTICS v_released = ROW_COUNT;
    RETURN v_released;
END $$;
COMMENT ON FUNCTION rvq.release_deliveries(bigint[], uuid[]) IS
    'Give leased deliveries back as if they had never been claimed; return how many.';
