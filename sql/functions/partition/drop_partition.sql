-- The lock keeps readers and writers of the whole table out, for the moment that the catalog needs; the file goes after
-- it. Whoever comes while it is waited for waits too, hence the short timeout.
-- Locks: the parent and the partition, alone, for 50 ms at the most to get each.
CREATE OR REPLACE FUNCTION rvq.drop_partition(p_parent text, p_day integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET lock_timeout = '50ms'
AS $$
BEGIN
    EXECUTE format('DROP TABLE rvq.%I', p_parent || '_' || p_day);
    RETURN true;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    RETURN false;
END $$;
COMMENT ON FUNCTION rvq.drop_partition(text, integer) IS
    'Drop the partition of that day; return false when a lock was not to be had.';
