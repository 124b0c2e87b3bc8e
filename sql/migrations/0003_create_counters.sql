-- Counters: every transition appends one row of deltas (nobody waits for anybody), a maintenance step folds them.
-- A counter's value is its folded row plus the deltas not folded yet, read in one snapshot: exact at any moment.

CREATE TABLE rvq.counters (
    queue           text COLLATE "C" NOT NULL PRIMARY KEY,
    scheduled       bigint NOT NULL DEFAULT 0,
    queued          bigint NOT NULL DEFAULT 0,
    claimed         bigint NOT NULL DEFAULT 0,
    succeeded       bigint NOT NULL DEFAULT 0,
    failed          bigint NOT NULL DEFAULT 0,
    cancelled       bigint NOT NULL DEFAULT 0,
    tasks_open      bigint NOT NULL DEFAULT 0,
    tasks_started   bigint NOT NULL DEFAULT 0,
    tasks_succeeded bigint NOT NULL DEFAULT 0,
    tasks_failed    bigint NOT NULL DEFAULT 0,
    tasks_cancelled bigint NOT NULL DEFAULT 0,
    deliveries_pending   bigint NOT NULL DEFAULT 0,
    deliveries_delivered bigint NOT NULL DEFAULT 0,
    deliveries_dead      bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
COMMENT ON TABLE rvq.counters IS 'Folded counters of sub_tasks, tasks and deliveries, by the queue of the task.';

CREATE TABLE rvq.counter_deltas (
    queue           text COLLATE "C" NOT NULL,
    scheduled       integer,
    queued          integer,
    claimed         integer,
    succeeded       integer,
    failed          integer,
    cancelled       integer,
    tasks_open      integer,
    tasks_started   integer,
    tasks_succeeded integer,
    tasks_failed    integer,
    tasks_cancelled integer,
    deliveries_pending   integer,
    deliveries_delivered integer,
    deliveries_dead      integer
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 100000);
COMMENT ON COLUMN rvq.counters.tasks_started IS 'Of the open tasks, those of which a sub_task has ended.';
COMMENT ON TABLE rvq.counter_deltas IS 'Changes of counters, appended by the transaction that made them and not folded yet. NULL is 0 and takes no room.';

CREATE VIEW rvq.current_counters AS
    SELECT queue,
           sum(scheduled)::bigint AS scheduled, sum(queued)::bigint AS queued, sum(claimed)::bigint AS claimed,
           sum(succeeded)::bigint AS succeeded, sum(failed)::bigint AS failed, sum(cancelled)::bigint AS cancelled,
           sum(tasks_open)::bigint AS tasks_open, sum(tasks_started)::bigint AS tasks_started,
           sum(tasks_succeeded)::bigint AS tasks_succeeded,
           sum(tasks_failed)::bigint AS tasks_failed, sum(tasks_cancelled)::bigint AS tasks_cancelled,
           sum(deliveries_pending)::bigint AS deliveries_pending,
           sum(deliveries_delivered)::bigint AS deliveries_delivered, sum(deliveries_dead)::bigint AS deliveries_dead
      FROM (SELECT * FROM rvq.counters
            UNION ALL
            SELECT queue, coalesce(scheduled, 0), coalesce(queued, 0), coalesce(claimed, 0), coalesce(succeeded, 0),
                   coalesce(failed, 0), coalesce(cancelled, 0), coalesce(tasks_open, 0), coalesce(tasks_started, 0),
                   coalesce(tasks_succeeded, 0), coalesce(tasks_failed, 0), coalesce(tasks_cancelled, 0), coalesce(deliveries_pending, 0),
                   coalesce(deliveries_delivered, 0), coalesce(deliveries_dead, 0)
              FROM rvq.counter_deltas) AS c
     GROUP BY queue;
COMMENT ON VIEW rvq.current_counters IS 'The exact counters: folded ones plus pending deltas, in one snapshot.';
