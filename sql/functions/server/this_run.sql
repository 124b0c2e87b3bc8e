-- table_id is the table's file: a TRUNCATE gives it another one too, so no row that a dump brought back is taken for
-- the present run's.
CREATE OR REPLACE FUNCTION rvq.this_run() RETURNS SETOF rvq.server_runs
LANGUAGE sql STABLE
AS $$
    SELECT r.* FROM rvq.server_runs AS r
     WHERE r.started_at = pg_postmaster_start_time()
       AND r.database_id = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
       AND r.table_id = pg_relation_filenode('rvq.server_runs')
$$;
COMMENT ON FUNCTION rvq.this_run() IS 'Return the run of this server with this database, if it is recorded.';
