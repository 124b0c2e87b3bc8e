-- Locks: none of its own: the sub_tasks are locked.
-- Callers: rvq.advance_tasks
CREATE OR REPLACE FUNCTION rvq.cancel_open_sub_tasks(p_task_ids bigint[], p_now timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    WITH rest AS (
        DELETE FROM rvq.open_sub_tasks AS s USING unnest(p_task_ids) AS t(id)
         WHERE s.id > t.id AND s.id < t.id + 16384
        RETURNING s.id, s.attempt, s.worker_id, s.queue, s.status),
    fact AS (
        INSERT INTO rvq.outcomes (id, ended_at, attempt, status, worker_id)
        SELECT r.id, p_now, r.attempt, 'cancelled', r.worker_id FROM rest AS r)
    INSERT INTO rvq.counter_deltas (queue, scheduled, queued, claimed, cancelled)
    SELECT r.queue, nullif(-count(*) FILTER (WHERE r.status = 'scheduled'), 0), nullif(-count(*) FILTER (WHERE r.status = 'queued'), 0),
           nullif(-count(*) FILTER (WHERE r.status = 'claimed'), 0), count(*)
      FROM rest AS r GROUP BY r.queue;
END $$;
COMMENT ON FUNCTION rvq.cancel_open_sub_tasks(bigint[], timestamptz) IS 'Cancel whatever of these tasks is unfinished.';
