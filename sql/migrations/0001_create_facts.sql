-- Facts: what a partner sent, what a worker returned, how a task ended.
-- Rows are inserted once and never updated. Every table is range-partitioned by id, one partition a UTC day,
-- so that retention is a DROP. The id says which day it belongs to (see rvq.new_task_id), hence no join and no
-- second key is needed to find the partition of anything.

CREATE TYPE rvq.completion_policy AS ENUM ('all', 'fail_fast', 'at_least');
COMMENT ON TYPE rvq.completion_policy IS 'When a task ends: every sub_task ended, the first final failure, k successes.';

CREATE TYPE rvq.task_status AS ENUM ('succeeded', 'failed', 'cancelled');
COMMENT ON TYPE rvq.task_status IS 'How a task ended. "queued" and "running" are worked out on read and never stored.';

CREATE TYPE rvq.outcome_status AS ENUM ('succeeded', 'failed', 'cancelled', 'retrying');
COMMENT ON TYPE rvq.outcome_status IS 'How one attempt of a sub_task ended. All but "retrying" are final for the sub_task.';

CREATE SEQUENCE rvq.task_sequence AS bigint MINVALUE 0 MAXVALUE 8589934591 START 0 CACHE 1 CYCLE;
COMMENT ON SEQUENCE rvq.task_sequence IS 'The 33 middle bits of a task id: tells the tasks of one day apart.';

CREATE TABLE rvq.tasks (
    id               bigint                NOT NULL,
    created_at       timestamptz           NOT NULL,
    deadline_seconds double precision,
    total            integer               NOT NULL,
    required         integer,
    policy           rvq.completion_policy NOT NULL,
    queue            text                  NOT NULL,
    webhook_url      text,
    webhook_host     text,
    metadata         text,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
COMMENT ON TABLE rvq.tasks IS 'Fact: a task as the partner sent it. metadata holds the partner''s own bytes.';

CREATE TABLE rvq.sub_tasks (
    id           bigint      NOT NULL,
    queued_at    timestamptz NOT NULL,
    max_attempts smallint    NOT NULL,
    payload      text        NOT NULL,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
COMMENT ON TABLE rvq.sub_tasks IS 'Fact: a sub_task as the partner sent it. payload holds the partner''s own bytes.';

CREATE TABLE rvq.outcomes (
    id          bigint             NOT NULL,
    lease_token uuid,
    ended_at    timestamptz        NOT NULL,
    attempt     smallint           NOT NULL,
    status      rvq.outcome_status NOT NULL,
    worker_id   text,
    result      text,
    error       text
) PARTITION BY RANGE (id);
CREATE INDEX outcomes_id ON rvq.outcomes (id);
COMMENT ON TABLE rvq.outcomes IS 'Fact: how one attempt of a sub_task ended. lease_token is set where a worker reported it.';

CREATE TABLE rvq.events (
    id          bigint           NOT NULL,
    xid         xid8             NOT NULL,
    occurred_at timestamptz      NOT NULL,
    succeeded   integer          NOT NULL,
    failed      integer          NOT NULL,
    cancelled   integer          NOT NULL,
    status      rvq.task_status  NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    body        text             NOT NULL,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX events_unsuccessful ON rvq.events (id) WHERE status <> 'succeeded';
CREATE INDEX events_feed ON rvq.events (xid, id);
COMMENT ON TABLE rvq.events IS 'Fact, the outbox: a task ended. id is the task id plus the run (0, then one more at each admin retry). body is signed and sent as it is. queue is that of the task, so that retention counts a day without its tasks.';
COMMENT ON COLUMN rvq.events.xid IS 'The transaction that wrote it: the order of the feed, which hands out only events older than any that may still be written.';

CREATE TYPE rvq.delivery_status AS ENUM ('pending', 'delivered', 'dead');
COMMENT ON TYPE rvq.delivery_status IS 'State of a delivery: to be sent (again), taken by the receiver, or given up.';

CREATE TABLE rvq.delivery_attempts (
    id          bigint              NOT NULL,
    started_at  timestamptz         NOT NULL,
    ended_at    timestamptz         NOT NULL,
    attempt     smallint            NOT NULL,
    status_code smallint,
    status      rvq.delivery_status NOT NULL,
    queue       text COLLATE "C"    NOT NULL,
    outcome     text                NOT NULL,
    detail      text,
    answer      bytea
) PARTITION BY RANGE (id);
CREATE INDEX delivery_attempts_id ON rvq.delivery_attempts (id);
CREATE INDEX delivery_attempts_dead ON rvq.delivery_attempts (id) WHERE status = 'dead';
COMMENT ON TABLE rvq.delivery_attempts IS 'Fact: one POST of one event. status is that of the delivery once this attempt had ended.';

CREATE TYPE rvq.task_view AS (
    id bigint, status text, queue text, metadata text, webhook_url text, policy text, required integer,
    deadline_seconds double precision, created_at timestamptz, finished_at timestamptz, total integer,
    scheduled integer, queued integer, claimed integer, succeeded integer, failed integer, cancelled integer
);
COMMENT ON TYPE rvq.task_view IS 'A task as it is read: the fact, where it stands now, and its sub_tasks counted by status.';
