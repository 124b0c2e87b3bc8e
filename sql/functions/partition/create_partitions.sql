-- Makes the day partitions from today on that are missing, and has their readers written. A table is made beside its
-- parent and attached, which takes no lock that readers or writers of the parent would wait for. Rows are found by id
-- alone, so statistics of what partners and workers sent are never asked for; gathering them each time a day has grown
-- by a tenth took a core for half a second.
-- Errors: RQ001 when ids can't say this day.
-- Locks: the partitions' advisory lock, alone; parents in SHARE UPDATE EXCLUSIVE.
CREATE OR REPLACE FUNCTION rvq.create_partitions(p_days_ahead integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_today integer := rvq.require_day(rvq.clock());
    v_table text;
    v_partition text;
    v_created integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(1, 1);
    FOR v_day IN v_today .. least(v_today + p_days_ahead, 32766) LOOP
        FOREACH v_table IN ARRAY ARRAY['tasks', 'sub_tasks', 'outcomes', 'events', 'delivery_attempts'] LOOP
            v_partition := v_table || '_' || v_day;
            CONTINUE WHEN to_regclass('rvq.' || v_partition) IS NOT NULL;
            EXECUTE format('CREATE TABLE rvq.%I (LIKE rvq.%I INCLUDING ALL)'
                           ' WITH (autovacuum_analyze_scale_factor = 1, autovacuum_analyze_threshold = 10000)',
                           v_partition, v_table);
            EXECUTE (SELECT format('ALTER TABLE rvq.%I ', v_partition)
                            || string_agg(format('ALTER %I SET STATISTICS 0', a.attname), ', ')
                       FROM pg_attribute AS a
                      WHERE a.attrelid = format('rvq.%I', v_partition)::regclass AND a.attlen = -1 AND a.attnum > 0);
            EXECUTE format('ALTER TABLE rvq.%I ATTACH PARTITION rvq.%I FOR VALUES FROM (%s) TO (%s)',
                           v_table, v_partition, v_day::bigint << 48, (v_day + 1)::bigint << 48);
            IF v_table IN ('outcomes', 'delivery_attempts') THEN -- No primary key, and publications ask for one.
                EXECUTE format('ALTER TABLE rvq.%I REPLICA IDENTITY FULL', v_partition);
            END IF;
            EXECUTE format('COMMENT ON TABLE rvq.%I IS %L', v_partition,
                           format('rvq.%s of %s', v_table, '2024-01-01'::date + v_day));
            v_created := v_created + 1;
        END LOOP;
    END LOOP;
    -- The partitions may also be older than the readers.
    IF v_created > 0 OR to_regprocedure('rvq.payloads_of(bigint[])') IS NULL THEN
        PERFORM rvq.write_readers();
    END IF;
    RETURN v_created;
END $$;
REVOKE ALL ON FUNCTION rvq.create_partitions(integer) FROM PUBLIC;
COMMENT ON FUNCTION rvq.create_partitions(integer) IS
    'Make the partitions of today and the days ahead that are missing; return how many.';
