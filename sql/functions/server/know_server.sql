-- A backend lives within one run. So it asks once, and settings of the session remember the answer, and for which file
-- of the table it is. They are taken back with the transaction that recorded the run, if that does not commit.
-- Locks: as rvq.record_server.
CREATE OR REPLACE FUNCTION rvq.know_server() RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_run rvq.server_runs;
BEGIN
    SELECT * INTO v_run FROM rvq.this_run();
    IF v_run.id IS NULL THEN
        v_run := rvq.record_server();
    END IF;
    PERFORM set_config('rvq.run_began', extract(epoch FROM v_run.began_at)::text, false),
            set_config('rvq.xid_offset', v_run.xid_offset::text, false),
            set_config('rvq.runs_file', pg_relation_filenode('rvq.server_runs')::text, false);
    RETURN v_run.id;
END $$;
COMMENT ON FUNCTION rvq.know_server() IS
    'See to it that this server''s run is recorded and the session knows it; return the run''s id.';
