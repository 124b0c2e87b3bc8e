-- Every function that writes holds the door, shared, until its commit. rvq.reset holds it alone, so that its TRUNCATE
-- meets no half-done writer and can't be part of a deadlock. The door also tells rvq.raise_claim_floors which writers
-- are under way.
-- Locks: door, shared.
CREATE OR REPLACE FUNCTION rvq.hold_door() RETURNS void
LANGUAGE sql VOLATILE
AS $$ SELECT pg_advisory_xact_lock_shared(1, 0) $$;
COMMENT ON FUNCTION rvq.hold_door() IS 'Hold the writers'' door, shared, until the end of the transaction.';
