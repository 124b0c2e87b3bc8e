-- Every function that writes holds the door, shared, until its commit. rvq.reset holds it alone, so that its TRUNCATE
-- meets no half-done writer and can't be part of a deadlock. The door also tells rvq.raise_claim_floors which writers
-- are under way. And nobody writes before the server's run is recorded (rvq.know_server); a session asks once, and
-- again if the table of the runs was emptied or made anew: a dump may have been restored meanwhile.
-- Locks: door, shared; once in a session as rvq.record_server.
CREATE OR REPLACE FUNCTION rvq.hold_door() RETURNS void
LANGUAGE sql VOLATILE
AS $$
    SELECT CASE WHEN current_setting('rvq.runs_file', true) = pg_relation_filenode('rvq.server_runs')::text
                THEN pg_advisory_xact_lock_shared(1, 0)
                ELSE rvq.open_door() END
$$;
COMMENT ON FUNCTION rvq.hold_door() IS 'Hold the writers'' door, shared, until the end of the transaction.';
