-- Drops a day's tasks and subtracts what they count for from the counters: both or neither. While it counts, no task or
-- delivery of the day can end (the tables that would say so are locked against writers), so what ended last is measured
-- here once more. The day is looked at again when its tasks are locked, because an admin may have reopened one.
-- Locks: outcomes, events and delivery_attempts of the day against writers (not waited for); then as
-- rvq.drop_partition.
CREATE OR REPLACE FUNCTION rvq.drop_day_of_tasks(p_day integer, p_days integer DEFAULT 0) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    EXECUTE format('LOCK TABLE rvq.outcomes_%1$s, rvq.events_%1$s, rvq.delivery_attempts_%1$s'
                   ' IN SHARE MODE NOWAIT', p_day);
    IF rvq.day_is_open(p_day) OR rvq.day_ended_at(p_day) > rvq.clock() - make_interval(days => p_days) THEN
        RETURN false;
    END IF;
    PERFORM rvq.subtract_day_counts(p_day);
    IF NOT rvq.drop_partition('tasks', p_day) OR rvq.day_is_open(p_day) THEN
        RAISE lock_not_available;
    END IF;
    DELETE FROM rvq.ended_days AS d WHERE d.day = p_day;
    DELETE FROM rvq.set_aside AS s WHERE s.id < (p_day + 1)::bigint << 48;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;
COMMENT ON FUNCTION rvq.drop_day_of_tasks(integer, integer) IS
    'Drop the tasks of a day that ended p_days ago, counters included; return false when it did not, or a lock was not '
    'to be had.';
