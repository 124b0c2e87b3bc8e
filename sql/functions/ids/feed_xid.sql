-- Only after rvq.hold_door, which sees to it that the session knows the run.
CREATE OR REPLACE FUNCTION rvq.feed_xid() RETURNS xid8
LANGUAGE sql VOLATILE
AS $$
    SELECT CASE current_setting('rvq.xid_offset')
               WHEN '0' THEN pg_current_xact_id()
               ELSE (pg_current_xact_id()::text::bigint + current_setting('rvq.xid_offset')::bigint)::text::xid8 END
$$;
COMMENT ON FUNCTION rvq.feed_xid() IS 'Return the place of this transaction''s events in the feed.';
