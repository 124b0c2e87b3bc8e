-- Open work: the only rows that are updated. A row leaves when its work ends, so these tables stay as small as
-- the work in hand, whatever the history.

CREATE TYPE rvq.sub_task_status AS ENUM ('scheduled', 'queued', 'claimed');
COMMENT ON TYPE rvq.sub_task_status IS 'States of an unfinished sub_task. The final ones are in rvq.outcome_status.';

CREATE TABLE rvq.open_tasks (
    id           bigint                NOT NULL PRIMARY KEY,
    created_at   timestamptz           NOT NULL,
    deadline_at  timestamptz,
    total        integer               NOT NULL,
    unfinished   integer               NOT NULL CHECK (unfinished >= 0),
    succeeded    integer               NOT NULL DEFAULT 0,
    failed       integer               NOT NULL DEFAULT 0,
    required     integer,
    policy       rvq.completion_policy NOT NULL,
    run          smallint              NOT NULL DEFAULT 0,
    queue        text                  NOT NULL,
    webhook_url  text,
    webhook_host text,
    metadata     text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2);
CREATE INDEX open_tasks_deadline ON rvq.open_tasks (deadline_at) WHERE deadline_at IS NOT NULL;
COMMENT ON TABLE rvq.open_tasks IS 'A task that has not ended. Carries all that ending it needs, so that the last completion reads no fact.';
COMMENT ON COLUMN rvq.open_tasks.run IS 'How many times the task was reopened by an admin retry.';

-- Half of a page is left free: a claim changes all that was created together, and the new versions find room beside the old.
CREATE TABLE rvq.open_sub_tasks (
    id               bigint              NOT NULL PRIMARY KEY,
    queued_at        timestamptz         NOT NULL,
    due_at           timestamptz,
    lease_expires_at timestamptz,
    lease_token      uuid,
    status           rvq.sub_task_status NOT NULL,
    attempt          smallint            NOT NULL DEFAULT 0,
    max_attempts     smallint            NOT NULL,
    again            boolean             NOT NULL DEFAULT false,
    queue            text COLLATE "C"    NOT NULL,
    worker_id        text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2);
CREATE INDEX open_sub_tasks_queued ON rvq.open_sub_tasks (queue, queued_at, id) WHERE status = 'queued' AND NOT again;
CREATE INDEX open_sub_tasks_queued_again ON rvq.open_sub_tasks (queue, queued_at, id) WHERE status = 'queued' AND again;
CREATE INDEX open_sub_tasks_due ON rvq.open_sub_tasks (due_at) WHERE status = 'scheduled';
CREATE INDEX open_sub_tasks_lease ON rvq.open_sub_tasks (lease_expires_at) WHERE status = 'claimed';
CREATE INDEX open_sub_tasks_tried ON rvq.open_sub_tasks (id) WHERE attempt > 0 AND status <> 'claimed';
COMMENT ON TABLE rvq.open_sub_tasks IS 'A sub_task that has not ended: where it stands and who holds it.';
COMMENT ON COLUMN rvq.open_sub_tasks.queued_at IS 'Set once: with the id it is the order of every lock and of every claim.';
COMMENT ON COLUMN rvq.open_sub_tasks.lease_token IS 'The fence. Kept when a lease expires, until the next claim: a late report of it still counts.';
COMMENT ON COLUMN rvq.open_sub_tasks.again IS 'Queued again after a retry, a release or a wait. Only create adds rows that are not, so the claim floor of those never needs lowering.';

CREATE TABLE rvq.queues (
    queue       text COLLATE "C" NOT NULL PRIMARY KEY,
    paused      boolean          NOT NULL DEFAULT false,
    claim_floor timestamptz      NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);
COMMENT ON TABLE rvq.queues IS 'What is known of a queue beyond its sub_tasks. A queue without a row is not paused.';
COMMENT ON COLUMN rvq.queues.claim_floor IS 'No first-time queued sub_task is older: claim starts here, past dead index entries that vacuum may not remove yet.';

CREATE TABLE rvq.idempotency_keys (
    key       text COLLATE "C" NOT NULL PRIMARY KEY,
    body_hash bytea            NOT NULL,
    task_id   bigint           NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX idempotency_keys_task ON rvq.idempotency_keys (task_id);
COMMENT ON TABLE rvq.idempotency_keys IS 'Which task an Idempotency-Key made, and the hash of the body it came with.';
