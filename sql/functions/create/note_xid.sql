-- One row in ten seconds, kept for a day. What a restore or a clock that stepped back has made wrong is forgotten.
-- Locks: rows of xid_times.
CREATE OR REPLACE FUNCTION rvq.note_xid() RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_now timestamptz := rvq.clock();
    v_next bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
BEGIN
    DELETE FROM rvq.xid_times AS t WHERE t.at > v_now OR t.at < v_now - interval '1 day' OR t.xid > v_next;
    INSERT INTO rvq.xid_times (xid, at)
    SELECT v_next, v_now
     WHERE NOT EXISTS (SELECT FROM rvq.xid_times AS t WHERE t.at > v_now - interval '10 seconds')
    ON CONFLICT (xid) DO NOTHING;
END $$;
COMMENT ON FUNCTION rvq.note_xid() IS 'Note which transaction is the next at this time, if none was noted of late.';
