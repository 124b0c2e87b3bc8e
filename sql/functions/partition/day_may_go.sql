-- A day goes whole, once each of its tasks, and each delivery, ended at least p_days ago. What is written down of a day
-- is taken as true until that much time has passed since its last end: then the day is measured again, as more may have
-- ended since. It is used unmeasured for as long as it says no.
-- Locks: the day's row of ended_days.
CREATE OR REPLACE FUNCTION rvq.day_may_go(p_day integer, p_days integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_ended_at timestamptz;
    v_measured_at timestamptz;
BEGIN
    IF rvq.day_is_open(p_day) THEN
        RETURN false;
    END IF;
    SELECT d.ended_at, d.measured_at INTO v_ended_at, v_measured_at FROM rvq.ended_days AS d WHERE d.day = p_day;
    IF v_ended_at > rvq.clock() - make_interval(days => p_days) THEN
        RETURN false;
    ELSIF v_measured_at IS NULL OR v_measured_at < v_ended_at + make_interval(days => p_days) THEN
        v_ended_at := rvq.day_ended_at(p_day);
        INSERT INTO rvq.ended_days AS d (day, ended_at, measured_at) VALUES (p_day, v_ended_at, rvq.clock())
        ON CONFLICT (day) DO UPDATE SET ended_at = excluded.ended_at, measured_at = excluded.measured_at;
    END IF;
    RETURN v_ended_at <= rvq.clock() - make_interval(days => p_days);
END $$;
COMMENT ON FUNCTION rvq.day_may_go(integer, integer) IS
    'Tell whether everything of that day ended at least p_days ago.';
