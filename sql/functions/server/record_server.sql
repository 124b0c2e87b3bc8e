-- What tells one run from the next is in no backup: when the server started, in which database and file. So a restored
-- folder, dump or standby is noticed whatever it lacks, before anything is written to it. The days' ids are then begun
-- anew (see rvq.open_day). Xids go on above every stored place in the feed: a new server counts its own from the
-- beginning, and the events of a dump keep theirs. The places after the last stored one are no earlier run's, for their
-- events are lost; unless a restart finds no event at all, of a reset. The run begins later than what is stored: a
-- standby's clock may be behind.
-- Locks: those who begin a run or a day, in turn.
CREATE OR REPLACE FUNCTION rvq.record_server() RETURNS rvq.server_runs
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_run rvq.server_runs;
    v_last rvq.server_runs;
    v_xid bigint;
    v_highest bigint;
    v_event rvq.events;
BEGIN
    PERFORM pg_advisory_xact_lock(1, 5);
    SELECT * INTO v_run FROM rvq.this_run();
    IF v_run.id IS NOT NULL THEN
        RETURN v_run;
    END IF;
    SELECT * INTO v_last FROM rvq.server_runs AS r ORDER BY r.first_xid DESC LIMIT 1;
    SELECT * INTO v_event FROM rvq.events AS e ORDER BY e.xid DESC LIMIT 1;
    v_highest := greatest(v_last.first_xid, v_event.xid::text::bigint, 0);
    v_xid := pg_current_xact_id()::text::bigint;
    v_run.id := ('x' || rvq.random_hex())::bit(64)::bigint & 9223372036854775807;
    v_run.started_at := pg_postmaster_start_time();
    v_run.database_id := (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database());
    v_run.table_id := pg_relation_filenode('rvq.server_runs');
    IF has_function_privilege('pg_control_system()', 'EXECUTE') THEN
        v_run.system_identifier := (SELECT c.system_identifier FROM pg_control_system() AS c);
    END IF;
    v_run.timeline := ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer;
    v_run.began_at := greatest(
        rvq.clock(), v_event.occurred_at + interval '1 microsecond',
        (SELECT t.created_at FROM rvq.tasks AS t ORDER BY t.id DESC LIMIT 1) + interval '1 microsecond');
    v_run.xid_offset := greatest(v_last.xid_offset, v_highest + 1 - v_xid, 0);
    v_run.how := CASE
        WHEN v_last.id IS NULL THEN 'installed'
        WHEN (v_run.system_identifier, v_run.database_id, v_run.table_id, v_run.xid_offset) IS DISTINCT FROM
             (v_last.system_identifier, v_last.database_id, v_last.table_id, v_last.xid_offset) THEN 'restored'
        WHEN v_run.timeline <> v_last.timeline THEN 'promoted'
        ELSE 'started' END;
    v_run.first_xid := CASE WHEN v_event.id IS NULL AND v_run.how IN ('installed', 'started')
                            THEN v_xid + v_run.xid_offset ELSE v_highest + 1 END;
    INSERT INTO rvq.server_runs VALUES (v_run.*);
    DELETE FROM rvq.id_days;
    IF v_run.how IN ('restored', 'promoted') THEN
        RAISE WARNING 'RVQ: this database was %: what was committed last may be missing', v_run.how
            USING HINT = 'Partners whose cursor is of what is missing are told so. See docs/operations.md.';
    END IF;
    RETURN v_run;
END $$;
COMMENT ON FUNCTION rvq.record_server() IS
    'Record that a server runs with this database, if it is not; return the run.';
REVOKE ALL ON FUNCTION rvq.record_server() FROM PUBLIC;
