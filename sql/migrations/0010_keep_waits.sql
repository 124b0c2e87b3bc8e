-- The clock may be set back. What waits then must not wait for longer than was meant, so its row says how long that is.
ALTER TABLE rvq.open_sub_tasks ADD COLUMN wait_seconds integer;
COMMENT ON COLUMN rvq.open_sub_tasks.wait_seconds IS
    'How long the lease is, or the back-off, from when it was given. NULL where a partner said until when to wait. '
    'What ends later than that from now was given before the clock was set back: see rvq.follow_clock.';

ALTER TABLE rvq.due_deliveries ADD COLUMN wait_seconds integer;
COMMENT ON COLUMN rvq.due_deliveries.wait_seconds IS
    'How long the delivery waits for its next try, from when the last one was recorded; NULL where it was due at once.';
