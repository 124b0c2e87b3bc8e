-- It reads the events and the ledger of the whole day, about a second for a million of them: retention asks when the
-- day is about to go, and not again before it may (rvq.ended_days).
CREATE OR REPLACE FUNCTION rvq.day_ended_at(p_day integer) RETURNS timestamptz
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_ended_at timestamptz;
BEGIN
    EXECUTE format('SELECT greatest((SELECT max(e.occurred_at) FROM rvq.events_%1$s AS e),'
                   ' (SELECT max(a.ended_at) FROM rvq.delivery_attempts_%1$s AS a))', p_day) INTO v_ended_at;
    RETURN coalesce(v_ended_at, '-infinity');
END $$;
COMMENT ON FUNCTION rvq.day_ended_at(integer) IS
    'Return when the last task made on that day ended or the last webhook of one was sent, whichever is later.';
