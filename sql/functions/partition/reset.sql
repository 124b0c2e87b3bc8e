-- Empties everything but the settings of queues, while traffic runs. It waits until no writer holds the door, and takes
-- every table at once or none (readers hold locks on several tables, in no order), so it can't be part of a deadlock.
-- Sequences go on: an old id or lease is unknown afterwards and never means something else.
-- Locks: door, alone; every table; queues by name.
-- Errors: 55P03 when readers leave no gap for 10 seconds.
CREATE OR REPLACE FUNCTION rvq.reset() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_tables text;
BEGIN
    PERFORM pg_advisory_xact_lock(1, 0);
    SELECT string_agg(format('ONLY %s', c.oid::regclass), ', ') INTO v_tables
      FROM pg_class AS c
     WHERE c.relnamespace = 'rvq'::regnamespace AND c.relkind = 'r' AND pg_relation_size(c.oid) > 0
       AND c.relname NOT IN ('schema_migrations', 'schema_functions', 'schema_roles', 'server_runs',
                             'id_days', 'xid_times', 'queues', 'admission');
    FOR i IN 1 .. 1000 LOOP
        EXIT WHEN v_tables IS NULL;
        BEGIN
            EXECUTE 'LOCK TABLE ' || v_tables || ' IN ACCESS EXCLUSIVE MODE NOWAIT';
            EXECUTE 'TRUNCATE ' || v_tables;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF i = 1000 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(0.01);
        END;
    END LOOP;
    PERFORM 1 FROM rvq.queues AS q ORDER BY q.queue FOR UPDATE;
    UPDATE rvq.queues SET claim_floor = '-infinity' WHERE claim_floor > '-infinity';
END $$;
REVOKE ALL ON FUNCTION rvq.reset() FROM PUBLIC;
COMMENT ON FUNCTION rvq.reset() IS 'Empty RVQ: every task, sub_task, event, delivery and counter.';
