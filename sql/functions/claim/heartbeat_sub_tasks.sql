-- A sub_task is claimed as long as lease_expires_at is set. The status is not asked, or a plan made on an empty queue
-- would go through all leases for each one named. Nor is EXISTS, which may be answered by hashing the whole table.
-- Locks: door, sub_tasks by (queued_at, id).
CREATE OR REPLACE FUNCTION rvq.heartbeat_sub_tasks(
    p_lease_seconds integer, p_ids bigint[], p_lease_tokens uuid[]
) RETURNS text[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_outcomes text[];
BEGIN
    PERFORM rvq.hold_door();
    PERFORM rvq.lock_sub_tasks(p_ids);
    -- All are locked, so what matches now is extended. That comes last: no wait is a part of the lease.
    v_outcomes := ARRAY(
        SELECT coalesce(
                   (SELECT CASE WHEN s.lease_token = l.lease_token AND s.lease_expires_at IS NOT NULL
                                THEN 'extended' ELSE 'stale' END
                      FROM rvq.open_sub_tasks AS s WHERE s.id = l.id),
                   CASE WHEN rvq.final_status(l.id) = 'cancelled' THEN 'cancelled' END,
                   (SELECT 'stale' FROM rvq.sub_tasks AS s WHERE s.id = l.id),
                   'unknown')
          FROM unnest(p_ids, p_lease_tokens) WITH ORDINALITY AS l(id, lease_token, position) ORDER BY l.position);
    UPDATE rvq.open_sub_tasks AS s
       SET wait_seconds = p_lease_seconds,
           lease_expires_at = (SELECT rvq.clock() + make_interval(secs => p_lease_seconds))
      FROM unnest(p_ids, p_lease_tokens) AS l(id, lease_token)
     WHERE s.id = l.id AND s.lease_token = l.lease_token AND s.lease_expires_at IS NOT NULL;
    RETURN v_outcomes;
END $$;
COMMENT ON FUNCTION rvq.heartbeat_sub_tasks(integer, bigint[], uuid[]) IS
    'Extend leases; return one outcome each, in order: extended, stale, cancelled (stop working), unknown.';
