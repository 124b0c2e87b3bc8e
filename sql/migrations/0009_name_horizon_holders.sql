-- What holds vacuum back, and for how long: a replication slot keeps an xid, and nothing says from when that is.
CREATE TABLE rvq.xid_times (
    xid bigint      NOT NULL PRIMARY KEY,
    at  timestamptz NOT NULL
);
COMMENT ON TABLE rvq.xid_times IS
    'When the next transaction was this one, every ten seconds of the last day (see rvq.list_horizon_holders).';

-- A publication that has all tables takes no UPDATE or DELETE of a table without a replica identity. These have no
-- primary key. It is read only where wal_level is logical: then the old row goes to the WAL.
ALTER TABLE rvq.counter_deltas REPLICA IDENTITY FULL;
DO $$
DECLARE
    v_table regclass;
BEGIN
    FOR v_table IN
        SELECT t.oid::regclass FROM (VALUES ('rvq.outcomes'::regclass), ('rvq.delivery_attempts')) AS p(parent)
         CROSS JOIN LATERAL (SELECT p.parent AS oid
                             UNION ALL
                             SELECT i.inhrelid FROM pg_inherits AS i WHERE i.inhparent = p.parent) AS t
         ORDER BY t.oid
    LOOP
        EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', v_table);
    END LOOP;
END $$;
