-- Locks: none of its own, the sub_tasks are locked.
CREATE OR REPLACE FUNCTION rvq.cancel_open_sub_tasks(p_task_ids bigint[], p_now timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    WITH cancelled AS (
        DELETE FROM rvq.open_sub_tasks AS s USING unnest(p_task_ids) AS t(id)
         WHERE s.id > t.id AND s.id < t.id + 16384
        RETURNING s.id, s.attempt, s.worker_id, s.queue, s.status),
    fact AS (
        INSERT INTO rvq.outcomes (id, ended_at, attempt, status, worker_id)
        SELECT c.id, p_now, c.attempt, 'cancelled', c.worker_id FROM cancelled AS c)
    INSERT INTO rvq.counter_deltas (queue, scheduled, queued, claimed, cancelled)
    SELECT c.queue, nullif(-count(*) FILTER (WHERE c.status = 'scheduled'), 0),
           nullif(-count(*) FILTER (WHERE c.status = 'queued'), 0),
           nullif(-count(*) FILTER (WHERE c.status = 'claimed'), 0), count(*)
      FROM cancelled AS c GROUP BY c.queue;
END $$;
COMMENT ON FUNCTION rvq.cancel_open_sub_tasks(bigint[], timestamptz) IS
    'Cancel the unfinished sub_tasks of these tasks.';
