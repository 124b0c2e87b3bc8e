-- Fifteen bits say the day. The last one is left out, as the end of its partition would be more than an id can be.
-- Errors: RQ001 for any other day.
CREATE OR REPLACE FUNCTION rvq.require_day(p_time timestamptz) RETURNS integer
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    IF rvq.day_at(p_time) BETWEEN 0 AND 32766 THEN
        RETURN rvq.day_at(p_time);
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'RQ001', MESSAGE = format(
        'the database''s clock shows %s, and ids can only say days from %s to %s',
        to_char(p_time AT TIME ZONE 'UTC', 'YYYY-MM-DD'), '2024-01-01'::date, '2024-01-01'::date + 32766);
END $$;
COMMENT ON FUNCTION rvq.require_day(timestamptz) IS
    'Return the day of a moment as ids carry it; raise RQ001 if they can''t.';
