-- A restored database, or a standby that took over, may lack what was committed last. What had been handed out of that,
-- ids and places in the feed, must not come again and mean something else. So every start of a server is recorded.
CREATE TABLE rvq.server_runs (
    id                bigint      NOT NULL PRIMARY KEY,
    started_at        timestamptz NOT NULL,
    database_id       oid         NOT NULL,
    table_id          oid         NOT NULL,
    system_identifier bigint,
    timeline          integer     NOT NULL,
    how               text        NOT NULL,
    began_at          timestamptz NOT NULL,
    first_xid         bigint      NOT NULL,
    xid_offset        bigint      NOT NULL,
    UNIQUE (started_at, database_id, table_id)
);
COMMENT ON TABLE rvq.server_runs IS
    'The times that a PostgreSQL server has run with this database in it, written before the first writer''s change. '
    'A run that is not here belongs to a history that was lost.';
COMMENT ON COLUMN rvq.server_runs.id IS 'A random number, which the feed''s cursors carry.';
COMMENT ON COLUMN rvq.server_runs.started_at IS
    'When that server started. With the oids of the database and of this table it tells whether the run is recorded.';
COMMENT ON COLUMN rvq.server_runs.how IS
    'installed; started: the same server, or a copy of its folder; promoted: another timeline; restored: elsewhere.';
COMMENT ON COLUMN rvq.server_runs.began_at IS 'When it was recorded, by rvq.clock().';
COMMENT ON COLUMN rvq.server_runs.first_xid IS 'No event of an earlier run has this xid or a later one in the feed.';
COMMENT ON COLUMN rvq.server_runs.xid_offset IS
    'How far the xids of its events are ahead of the server''s own: a restored database may be on a younger server.';

CREATE TABLE rvq.id_days (
    day  integer NOT NULL PRIMARY KEY,
    base bigint  NOT NULL
);
COMMENT ON TABLE rvq.id_days IS
    'Where the ids of a day begin. Written by rvq.open_day at the first create of the day, and again in the next run.';
COMMENT ON COLUMN rvq.id_days.day IS 'As in ids: days since 2024-01-01 UTC.';
COMMENT ON COLUMN rvq.id_days.base IS 'What is taken off rvq.task_sequence for the number that goes into an id.';

-- Five of the 33 bits say the cell: which database it is, once there are several. Until then they are 0.
SELECT setval('rvq.task_sequence', s.last_value & 268435455, s.is_called) FROM rvq.task_sequence AS s;
ALTER SEQUENCE rvq.task_sequence MAXVALUE 268435455;
COMMENT ON SEQUENCE rvq.task_sequence IS 'Counts tasks; less the day''s base it is the 28 middle bits of a task id.';
