-- See rvq.follow_clock. What 0.1.0 wrote does not say how long it was to wait: 3600 s is the longest lease, a week the
-- longest that a worker may ask for.
-- Locks: sub_tasks by (queued_at, id), with SKIP LOCKED.
CREATE OR REPLACE FUNCTION rvq.begin_waits_now(p_ids bigint[], p_now timestamptz) RETURNS integer
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_begun integer := 0;
BEGIN
    IF cardinality(p_ids) > 0 THEN
        WITH locked AS MATERIALIZED (
            SELECT s.id, coalesce(s.wait_seconds, CASE s.status WHEN 'claimed' THEN 3600 ELSE 604800 END) AS seconds
              FROM rvq.open_sub_tasks AS s WHERE s.id = ANY (p_ids)
             ORDER BY s.queued_at, s.id FOR UPDATE OF s SKIP LOCKED)
        UPDATE rvq.open_sub_tasks AS s
           SET lease_expires_at = CASE s.status WHEN 'claimed' THEN p_now + make_interval(secs => l.seconds) END,
               due_at = CASE s.status WHEN 'scheduled' THEN p_now + make_interval(secs => l.seconds) END
          FROM locked AS l
         WHERE s.id = l.id AND rvq.ends_late(coalesce(s.lease_expires_at, s.due_at), l.seconds, p_now);
        GET DIAGNOSTICS v_begun = ROW_COUNT;
    END IF;
    RETURN v_begun;
END $$;
COMMENT ON FUNCTION rvq.begin_waits_now(bigint[], timestamptz) IS
    'Let those of these leases and back-offs that end too late begin now; return how many.';
