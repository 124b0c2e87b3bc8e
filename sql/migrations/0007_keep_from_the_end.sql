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
