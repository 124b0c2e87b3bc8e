-- Nothing waits for longer than it was meant to because the clock was set back: a lease, a back-off, a delivery that
-- waits or is being sent. What ends more than a minute later than it could have, had it begun now, began under another
-- clock, and begins now. What a partner gave, not_before and deadlines, are moments, and stay.
-- It walks what waits a batch at a time; p_after is where the last batch ended. Leases are many, and each batch looks
-- at those that end last.
-- Locks: door; sub_tasks by (queued_at, id), then due_deliveries by id, with SKIP LOCKED.
CREATE OR REPLACE FUNCTION rvq.follow_clock(p_after bigint, p_limit integer)
RETURNS TABLE (last_id bigint, shortened integer)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_now timestamptz;
    v_leases bigint[];
    v_waiting bigint[];
    v_deliveries bigint[];
    v_last_waiting bigint;
    v_last_delivery bigint;
BEGIN
    PERFORM rvq.hold_door();
    v_now := rvq.clock();
    SELECT array_agg(l.id) FILTER (WHERE rvq.ends_late(l.lease_expires_at, coalesce(l.wait_seconds, 3600), v_now))
      INTO v_leases
      FROM (SELECT * FROM rvq.open_sub_tasks AS s WHERE s.status = 'claimed'
             ORDER BY s.lease_expires_at DESC LIMIT p_limit) AS l;
    SELECT array_agg(w.id) FILTER (WHERE rvq.ends_late(w.due_at, coalesce(w.wait_seconds, 604800), v_now)),
           CASE count(*) WHEN p_limit THEN max(w.id) END
      INTO v_waiting, v_last_waiting
      FROM (SELECT * FROM rvq.open_sub_tasks AS s WHERE s.attempt > 0 AND s.status <> 'claimed' AND s.id > p_after
             ORDER BY s.id LIMIT p_limit) AS w;
    SELECT array_agg(w.id) FILTER (WHERE w.claimed_at > v_now + interval '1 minute' OR w.lease_token IS NULL
               AND rvq.ends_late(w.due_at, coalesce(w.wait_seconds, CASE w.tries WHEN 0 THEN 0 ELSE 103680 END),
                                 v_now)),
           CASE count(*) WHEN p_limit THEN max(w.id) END
      INTO v_deliveries, v_last_delivery
      FROM (SELECT * FROM rvq.due_deliveries AS d WHERE d.id > p_after ORDER BY d.id LIMIT p_limit) AS w;
    last_id := least(v_last_waiting, v_last_delivery);
    shortened := rvq.begin_waits_now(v_leases || v_waiting, v_now) + rvq.begin_deliveries_now(v_deliveries, v_now);
    RETURN NEXT;
END $$;
COMMENT ON FUNCTION rvq.follow_clock(bigint, integer) IS
    'Shorten what waits for too long since the clock was set back; return the last id it looked at, and how many.';
