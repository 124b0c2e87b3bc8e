-- A database that was restored does not know how many ids the day had before. The time does: numbers begin at 3 000 for
-- each second of the day, which a day of 2^28 has room for, and above what is stored in any case. So they are above
-- what was lost, unless the lost run made more than that on the average. The time alone may decide: whatever is counted
-- in the database, starts too, had counted further in what was lost.
-- Errors: RQ001 when ids can't say this day.
-- Locks: those who begin a run or a day, in turn.
CREATE OR REPLACE FUNCTION rvq.open_day(p_now timestamptz) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_day integer := rvq.require_day(p_now);
    v_first bigint;
    v_base bigint := (SELECT d.base FROM rvq.id_days AS d WHERE d.day = rvq.day_at(p_now));
BEGIN
    IF v_base IS NOT NULL THEN
        RETURN v_base;
    END IF;
    PERFORM pg_advisory_xact_lock(1, 5);
    SELECT d.base INTO v_base FROM rvq.id_days AS d WHERE d.day = v_day;
    IF v_base IS NULL THEN
        v_first := greatest(
            floor(extract(epoch FROM p_now AT TIME ZONE 'UTC' - date_trunc('day', p_now AT TIME ZONE 'UTC')) * 3000),
            (SELECT ((t.id >> 15) & 268435455) + 1 FROM rvq.tasks AS t
              WHERE t.id >= v_day::bigint << 48 AND t.id < (v_day::bigint << 48) + (1::bigint << 43)
              ORDER BY t.id DESC LIMIT 1));
        v_base := nextval('rvq.task_sequence') + 1 - v_first;
        INSERT INTO rvq.id_days (day, base) VALUES (v_day, v_base);
    END IF;
    RETURN v_base;
END $$;
COMMENT ON FUNCTION rvq.open_day(timestamptz) IS
    'Say where the ids of this day begin, unless it is said already; return the base of the day.';
REVOKE ALL ON FUNCTION rvq.open_day(timestamptz) FROM PUBLIC;
