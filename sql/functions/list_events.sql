-- Commit-safe order: an event is handed out only when every transaction that began to write before its own has ended, so
-- nothing can appear behind a cursor. A transaction left open delays the feed, and never makes it wrong.
-- Callers: app/partner/store.py
CREATE OR REPLACE FUNCTION rvq.list_events(p_after_xid xid8, p_after_id bigint, p_limit integer)
RETURNS TABLE (xid xid8, id bigint, body text)
LANGUAGE sql STABLE
AS $$
    SELECT e.xid, e.id, e.body FROM rvq.events AS e
     WHERE (e.xid, e.id) > (p_after_xid, p_after_id) AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
     ORDER BY e.xid, e.id LIMIT p_limit
$$;
COMMENT ON FUNCTION rvq.list_events(xid8, bigint, integer) IS 'Events after a place in the feed, in its order.';
