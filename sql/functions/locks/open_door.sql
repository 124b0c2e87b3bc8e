-- Locks: door, shared; then as rvq.record_server.
CREATE OR REPLACE FUNCTION rvq.open_door() RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1, 0);
    PERFORM rvq.know_server();
END $$;
COMMENT ON FUNCTION rvq.open_door() IS 'Hold the writers'' door for the first time in a session.';
