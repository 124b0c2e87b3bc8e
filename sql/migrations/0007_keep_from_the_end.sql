-- Retention counts from the end of what happened, not from the day it was created.
CREATE TABLE rvq.ended_days (
    day         integer     NOT NULL PRIMARY KEY,
    ended_at    timestamptz NOT NULL,
    measured_at timestamptz NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE rvq.ended_days IS
    'Days past retention that are still there: when the last thing of each ended, so that it is not measured again '
    'before the day may go. Written by rvq.drop_expired_partitions alone.';
COMMENT ON COLUMN rvq.ended_days.day IS 'As in ids: days since 2024-01-01 UTC.';

ALTER TABLE rvq.open_tasks ADD COLUMN reopened_at timestamptz;
COMMENT ON COLUMN rvq.open_tasks.reopened_at IS
    'When an admin retry reopened it last: its age counts from there (see rvq.end_abandoned_tasks).';

-- What was found damaged, and stops nothing else.
CREATE TABLE rvq.set_aside (
    kind         text        NOT NULL,
    id           bigint      NOT NULL,
    reason       text        NOT NULL,
    set_aside_at timestamptz NOT NULL,
    PRIMARY KEY (kind, id)
);
COMMENT ON TABLE rvq.set_aside IS
    'What a claim could not take (kind: sub_task or delivery) and why. It was ended; a row stays until its day is '
    'dropped.';
