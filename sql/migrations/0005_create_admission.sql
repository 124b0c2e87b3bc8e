-- Admission control: what maintenance found out about the health of the queue, and the bounds beyond which create refuses.

CREATE TABLE rvq.admission (
    only_row              boolean     NOT NULL PRIMARY KEY DEFAULT true CHECK (only_row),
    max_backlog           bigint      NOT NULL DEFAULT 20000000,
    max_transaction_age   interval    NOT NULL DEFAULT '10 minutes',
    max_dead_tuples       bigint      NOT NULL DEFAULT 5000000,
    checked_at            timestamptz NOT NULL DEFAULT '-infinity',
    backlog               bigint      NOT NULL DEFAULT 0,
    transaction_age       interval    NOT NULL DEFAULT '0',
    dead_tuples           bigint      NOT NULL DEFAULT 0,
    refusal               text
) WITH (fillfactor = 50);
COMMENT ON TABLE rvq.admission IS 'One row: the bounds (change them by UPDATE), what rvq.check_admission saw last, and why create refuses, if it does.';
COMMENT ON COLUMN rvq.admission.max_backlog IS 'Sub_tasks queued or scheduled.';
COMMENT ON COLUMN rvq.admission.max_transaction_age IS 'Of the oldest transaction that keeps vacuum from removing what is dead.';
COMMENT ON COLUMN rvq.admission.max_dead_tuples IS 'In the tables of open work, as the statistics have it.';
INSERT INTO rvq.admission DEFAULT VALUES;
