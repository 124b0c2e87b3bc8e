-- The door: every function that writes holds it shared until its commit; rvq.reset holds it alone, so that its
-- TRUNCATE meets no half-done writer and can't be part of a deadlock. It also tells rvq.raise_claim_floors which
-- writers are under way.
CREATE OR REPLACE FUNCTION rvq.enter() RETURNS void
LANGUAGE sql VOLATILE
AS $$ SELECT pg_advisory_xact_lock_shared(1, 0) $$;
COMMENT ON FUNCTION rvq.enter() IS 'Hold the writers'' door, shared, until the end of the transaction.';
