-- Retention, one step a call: of the oldest day that may go (rvq.day_may_go), it deletes a batch of idempotency keys,
-- else drops a table. The tasks go first, and with them everything that is counted. The rest of the day is unreachable
-- from then on, as whatever reopens a task or a delivery reads the task first. One table a transaction: no order of
-- locks to get wrong.
-- Locks: door, ended_days by day, then as rvq.drop_day_of_tasks or rvq.drop_partition. It never waits long for one:
-- the next call tries again.
CREATE OR REPLACE FUNCTION rvq.drop_expired_partitions(p_days integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_partition record;
    v_deleted integer;
BEGIN
    PERFORM rvq.hold_door();
    FOR v_partition IN SELECT * FROM rvq.list_expired_partitions(p_days) LOOP
        IF v_partition.parent <> 'tasks' THEN
            RETURN rvq.drop_partition(v_partition.parent, v_partition.day)::integer;
        ELSIF rvq.day_may_go(v_partition.day, p_days) THEN
            v_deleted := rvq.delete_idempotency_keys(v_partition.day, 10000);
            IF v_deleted > 0 THEN
                RETURN v_deleted;
            END IF;
            -- One wait for a lock is enough for a call: others wait behind us.
            RETURN rvq.drop_day_of_tasks(v_partition.day, p_days)::integer;
        END IF;
    END LOOP;
    RETURN 0;
END $$;
REVOKE ALL ON FUNCTION rvq.drop_expired_partitions(integer) FROM PUBLIC;
COMMENT ON FUNCTION rvq.drop_expired_partitions(integer) IS
    'Do the next step of dropping days of which everything ended p_days ago; return how much it did, 0 for nothing.';
