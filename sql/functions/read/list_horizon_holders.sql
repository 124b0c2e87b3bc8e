-- The one definition of what keeps vacuum from removing dead rows of RVQ's tables: for admission, doctor and metrics.
-- That is a session of this database with an xid or a snapshot, whatever it is (an open cursor, pg_dump, ANALYZE), but
-- none that runs VACUUM, which no other VACUUM waits for; a prepared transaction of this database; the xmin of a slot,
-- which is that of a standby with hot_standby_feedback, or of the standby's session where it has no slot. A slot's
-- catalog_xmin holds only catalogs back, and a session of another database nothing here once no snapshot of ours has
-- seen its xid. What it reads is visible without pg_read_all_stats, but for xact_start and state of others' sessions.
-- An age is counted from the xid (rvq.xid_times): of a session it is never more, of the others never less than that.
CREATE OR REPLACE FUNCTION rvq.list_horizon_holders() RETURNS TABLE (kind text, holder text, age interval)
LANGUAGE sql VOLATILE
AS $$
    WITH holders AS (
        SELECT 'session' AS kind,
               concat_ws(', ', format('pid %s of %s', a.pid, coalesce(nullif(a.application_name, ''), '?')), a.state)
                   AS holder,
               greatest(age(a.backend_xid), age(a.backend_xmin)) AS xids, clock_timestamp() - a.xact_start AS open_for
          FROM pg_stat_activity AS a
         WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
           AND num_nonnulls(a.backend_xid, a.backend_xmin) > 0
           AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum AS v WHERE v.pid IN (a.pid, a.leader_pid))
        UNION ALL
        SELECT 'standby', format('standby %s without a slot', a.application_name), age(a.backend_xmin), NULL
          FROM pg_stat_activity AS a JOIN pg_stat_replication AS r ON r.pid = a.pid
         WHERE a.datname IS NULL AND a.backend_xmin IS NOT NULL
        UNION ALL
        SELECT 'prepared', format('prepared transaction %s', p.gid), age(p.transaction), clock_timestamp() - p.prepared
          FROM pg_prepared_xacts AS p WHERE p.database = current_database()
        UNION ALL
        SELECT 'slot', format('replication slot %s', s.slot_name), age(s.xmin), NULL
          FROM pg_replication_slots AS s WHERE s.xmin IS NOT NULL AND s.wal_status IS DISTINCT FROM 'lost')
    SELECT h.kind, h.holder,
           CASE h.kind WHEN 'session' THEN coalesce(least(h.open_for, t.at_most), t.at_least, '0')
                       ELSE coalesce(greatest(h.open_for, t.at_least), '0') END
      FROM holders AS h
     CROSS JOIN LATERAL (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint - h.xids AS xid) AS x
     CROSS JOIN LATERAL (
         SELECT rvq.clock() - (SELECT b.at FROM rvq.xid_times AS b WHERE b.xid <= x.xid ORDER BY b.xid DESC LIMIT 1)
                    AS at_most,
                rvq.clock() - (SELECT f.at FROM rvq.xid_times AS f WHERE f.xid > x.xid ORDER BY f.xid LIMIT 1)
                    AS at_least) AS t
$$;
COMMENT ON FUNCTION rvq.list_horizon_holders() IS
    'Return what keeps vacuum from removing dead rows here (session, prepared, slot, standby), by name, with its age.';
