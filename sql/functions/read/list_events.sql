-- Nothing ever appears behind a cursor that was handed out: an event is given only when every transaction that may yet
-- write an earlier one has ended. Those hold the door and have an xid below the event's; nobody else's transaction, in
-- this database or another, holds the feed back. There are two statements: a transaction that ends between them is not
-- waited for, and the second one's snapshot sees it.
CREATE OR REPLACE FUNCTION rvq.list_events(p_after_xid xid8, p_after_id bigint, p_limit integer)
RETURNS TABLE (xid xid8, id bigint, body text)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_horizon xid8;
BEGIN
    PERFORM rvq.know_server();
    v_horizon := coalesce(
        (SELECT x.xid
           FROM pg_snapshot_xip(pg_current_snapshot()) AS x(xid)
           JOIN pg_stat_activity AS a ON a.backend_xid = x.xid::xid AND a.datname = current_database()
           JOIN pg_locks AS l
             ON l.pid = a.pid AND l.locktype = 'advisory' AND l.classid = 1 AND l.objid = 0 AND l.objsubid = 2
          ORDER BY x.xid LIMIT 1),
        pg_snapshot_xmax(pg_current_snapshot()));
    v_horizon := (v_horizon::text::bigint + current_setting('rvq.xid_offset')::bigint)::text::xid8;
    RETURN QUERY
        SELECT e.xid, e.id, e.body FROM rvq.events AS e
         WHERE (e.xid, e.id) > (p_after_xid, p_after_id) AND e.xid < v_horizon
         ORDER BY e.xid, e.id LIMIT p_limit;
END $$;
COMMENT ON FUNCTION rvq.list_events(xid8, bigint, integer) IS
    'Return the events after a place in the feed, in its order.';
