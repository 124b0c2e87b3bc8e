-- Drift does not change while traffic goes on (counter and truth move together), so adding its opposite is exact
-- without stopping anybody. One repairs at a time, or two would both add it.
-- Locks: door, the repairers' lock.
CREATE OR REPLACE FUNCTION rvq.repair_counters() RETURNS integer
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_drift record;
    v_repaired integer := 0;
BEGIN
    PERFORM rvq.hold_door();
    PERFORM pg_advisory_xact_lock(1, 4);
    FOR v_drift IN
        SELECT a.queue, a.counter, a.truth - a.counted AS missing FROM rvq.audit() AS a WHERE a.truth <> a.counted
    LOOP
        EXECUTE format('INSERT INTO rvq.counter_deltas (queue, %I) VALUES ($1, $2)', v_drift.counter)
        USING v_drift.queue, v_drift.missing;
        v_repaired := v_repaired + 1;
    END LOOP;
    RETURN v_repaired;
END $$;
COMMENT ON FUNCTION rvq.repair_counters() IS 'Set the counters that drifted to the truth; return how many.';
