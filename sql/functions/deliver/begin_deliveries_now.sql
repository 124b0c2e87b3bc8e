-- See rvq.follow_clock. A first try waits for nothing. A later one waits for a day and its jitter at the most, where
-- the row does not say for how long, as 0.1.0 wrote it.
-- Locks: due_deliveries by id, with SKIP LOCKED.
CREATE OR REPLACE FUNCTION rvq.begin_deliveries_now(p_ids bigint[], p_now timestamptz) RETURNS integer
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_begun integer := 0;
BEGIN
    IF cardinality(p_ids) > 0 THEN
        WITH locked AS MATERIALIZED (
            SELECT d.id, coalesce(d.wait_seconds, CASE d.tries WHEN 0 THEN 0 ELSE 103680 END) AS seconds
              FROM rvq.due_deliveries AS d WHERE d.id = ANY (p_ids) ORDER BY d.id FOR UPDATE OF d SKIP LOCKED)
        UPDATE rvq.due_deliveries AS d
           SET lease_expires_at = p_now + (d.lease_expires_at - d.claimed_at),
               claimed_at = CASE WHEN d.lease_token IS NOT NULL THEN p_now END,
               due_at = CASE WHEN d.lease_token IS NULL THEN p_now + make_interval(secs => l.seconds)
                             ELSE least(d.due_at, p_now) END
          FROM locked AS l
         WHERE d.id = l.id AND (d.claimed_at > p_now + interval '1 minute'
                                OR d.lease_token IS NULL AND rvq.ends_late(d.due_at, l.seconds, p_now));
        GET DIAGNOSTICS v_begun = ROW_COUNT;
    END IF;
    RETURN v_begun;
END $$;
COMMENT ON FUNCTION rvq.begin_deliveries_now(bigint[], timestamptz) IS
    'Let those of these deliveries that wait, or are being sent, for too long begin to do so now; return how many.';
