CREATE OR REPLACE FUNCTION rvq.this_run() RETURNS SETOF rvq.server_runs
LANGUAGE sql STABLE
AS $$
    SELECT r.* FROM rvq.server_runs AS r
     WHERE r.started_at = pg_postmaster_start_time()
       AND r.database_id = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
       AND r.table_id = 'rvq.server_runs'::regclass
$$;
COMMENT ON FUNCTION rvq.this_run() IS 'Return the run of this server with this database, if it is recorded.';
