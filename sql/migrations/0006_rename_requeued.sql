-- Plain names: "requeued" for what was called "again", "attempted" for what was called "tried". Only the catalog
-- changes, at once on a table of any size; the functions are replaced right after the migrations. Those of 0.1.0 know
-- the old names, so going from 0.1.0 to this release takes a stop.
ALTER TABLE rvq.open_sub_tasks RENAME COLUMN again TO requeued;
ALTER INDEX rvq.open_sub_tasks_queued_again RENAME TO open_sub_tasks_requeued;
ALTER INDEX rvq.open_sub_tasks_tried RENAME TO open_sub_tasks_attempted;
COMMENT ON COLUMN rvq.open_sub_tasks.requeued IS
    'Whether it was queued more than once, after a retry, a release or a wait. '
    'Only create adds rows where this is false, so the claim floor of those never needs lowering.';
