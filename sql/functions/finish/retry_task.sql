-- Reopens a failed task: what did not succeed (failed, or cancelled by the task's policy or deadline) is requeued, with
-- as many attempts as it had at first (one that lost its payload too: a claim sets it aside once more). An id has room
-- for 16 384 ends of one task. The task ends with another event; if its last one is of an earlier run of the server,
-- a retry may have been lost, with the event after that. Only the holder of its gate reopens a task, so once it is seen
-- not to be open its last event stays the last.
-- Locks: door, the task's gate (whatever its policy); then it only inserts.
CREATE OR REPLACE FUNCTION rvq.retry_task(p_task_id bigint) RETURNS text
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_task rvq.tasks;
    v_event rvq.events;
    v_run integer;
BEGIN
    PERFORM rvq.hold_door();
    SELECT * INTO v_task FROM rvq.tasks AS t WHERE t.id = p_task_id;
    IF v_task.id IS NULL THEN
        RETURN 'unknown';
    END IF;
    PERFORM pg_advisory_xact_lock(2, rvq.gate_of(p_task_id));
    IF EXISTS (SELECT FROM rvq.open_tasks AS t WHERE t.id = p_task_id) THEN
        RETURN 'unfinished';
    END IF;
    SELECT * INTO v_event FROM rvq.events AS e WHERE e.id >= p_task_id AND e.id < p_task_id + 16384
     ORDER BY e.id DESC LIMIT 1;
    IF v_event.status <> 'failed' OR v_event.id & 16383 = 16383 THEN
        RETURN 'nothing_failed';
    END IF;
    v_run := v_event.id - p_task_id + 1;
    IF v_event.xid::text::bigint < (SELECT r.first_xid FROM rvq.this_run() AS r) THEN
        v_run := rvq.fresh_ordinal(v_run);
    END IF;
    INSERT INTO rvq.open_sub_tasks (id, queued_at, status, attempt, max_attempts, requeued, queue)
    SELECT i.id, coalesce(s.queued_at, v_task.created_at), 'queued', l.attempt,
           least(l.attempt + coalesce(s.max_attempts, 1), 32767), true, v_task.queue
      FROM generate_series(p_task_id + 1, p_task_id + v_task.total) AS i(id)
      LEFT JOIN rvq.sub_tasks AS s ON s.id = i.id
      CROSS JOIN LATERAL (SELECT o.status, o.attempt FROM rvq.outcomes AS o WHERE o.id = i.id AND o.status <> 'retrying'
                           ORDER BY o.attempt DESC, o.status DESC LIMIT 1) AS l
     WHERE l.status <> 'succeeded';
    INSERT INTO rvq.counter_deltas (queue, queued, failed, cancelled, tasks_open, tasks_started, tasks_failed)
    VALUES (v_task.queue, v_event.failed + v_event.cancelled, -v_event.failed, -v_event.cancelled, 1,
            (v_event.succeeded > 0)::integer, -1);
    -- It comes last, and with it the clock: no wait is a part of the deadline.
    INSERT INTO rvq.open_tasks (id, created_at, deadline_at, total, unfinished, succeeded, required, policy, run, queue,
                                webhook_url, webhook_host, metadata, reopened_at)
    VALUES (v_task.id, v_task.created_at, rvq.clock() + make_interval(secs => v_task.deadline_seconds), v_task.total,
           v_task.total - v_event.succeeded, v_event.succeeded, v_task.required, v_task.policy,
           v_run, v_task.queue, v_task.webhook_url, v_task.webhook_host, v_task.metadata,
           greatest(rvq.clock(), to_timestamp(current_setting('rvq.run_began')::float8)));
    RETURN 'retried';
END $$;
COMMENT ON FUNCTION rvq.retry_task(bigint) IS
    'Run what failed of an ended task once more; return retried, unfinished, nothing_failed or unknown.';
