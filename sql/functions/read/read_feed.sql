-- A cursor carries the run in which it was handed out. Places of that run lie below the first one of the next run, so a
-- cursor that is not below is of a history which the database no longer has: what it skips may never have been handed
-- out. Cursors of 0.1.0 carry no run (0 here); they are from before the first one.
CREATE OR REPLACE FUNCTION rvq.read_feed(p_run bigint, p_xid bigint, p_id bigint, p_limit integer)
RETURNS TABLE (run bigint, xid xid8, id bigint, body text)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_run bigint := rvq.know_server();
    v_first bigint := -1;
    v_end bigint;
BEGIN
    IF p_run <> 0 THEN
        SELECT r.first_xid INTO v_first FROM rvq.server_runs AS r WHERE r.id = p_run;
    END IF;
    v_end := coalesce((SELECT min(r.first_xid) FROM rvq.server_runs AS r WHERE r.first_xid > v_first),
                      pg_snapshot_xmax(pg_current_snapshot())::text::bigint
                      + current_setting('rvq.xid_offset')::bigint);
    IF v_first IS NULL OR p_xid >= v_end THEN
        RETURN QUERY SELECT v_run, NULL::xid8, NULL::bigint, NULL::text;
    ELSE
        RETURN QUERY SELECT v_run, e.xid, e.id, e.body FROM rvq.list_events(p_xid::text::xid8, p_id, p_limit) AS e;
    END IF;
END $$;
COMMENT ON FUNCTION rvq.read_feed(bigint, bigint, bigint, integer) IS
    'Return the events after a cursor, and the run for the next one; a row without id for a cursor of a lost history.';
