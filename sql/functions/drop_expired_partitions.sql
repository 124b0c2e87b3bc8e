-- Retention, one step a call: of the oldest expired day it can, it forgets a batch of idempotency keys, else drops a table.
-- The tasks go first, and with them everything that is counted; the rest of the day is unreachable from then on, as
-- whatever reopens a task or a delivery reads the task first. One table a transaction: no order of locks to get wrong.
-- Locks: door, then as rvq.drop_day_of_tasks or rvq.drop_partition; never waits long for one, the next call tries again.
-- Callers: dispatcher/store.py (maintenance)
CREATE OR REPLACE FUNCTION rvq.drop_expired_partitions(p_days integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_part record;
    v_forgotten integer;
BEGIN
    PERFORM rvq.enter();
    FOR v_part IN SELECT * FROM rvq.list_expired_partitions(p_days) LOOP
        IF v_part.parent <> 'tasks' THEN
            RETURN rvq.drop_partition(v_part.parent, v_part.day)::integer;
        ELSIF NOT rvq.day_is_open(v_part.day) THEN
            v_forgotten := rvq.forget_keys(v_part.day, 10000);
            IF v_forgotten > 0 THEN
                RETURN v_forgotten;
            END IF;
            -- One wait for a lock is enough for a call: others wait behind us.
            RETURN rvq.drop_day_of_tasks(v_part.day)::integer;
        END IF;
    END LOOP;
    RETURN 0;
END $$;
COMMENT ON FUNCTION rvq.drop_expired_partitions(integer) IS
    'Do the next step of dropping days that ended more than p_days ago; returns how much it did, 0 when nothing is left or can be done now.';
