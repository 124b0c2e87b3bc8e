CREATE OR REPLACE FUNCTION rvq.read_admission()
RETURNS TABLE (refusal text, backlog bigint, transaction_age interval, dead_tuples bigint)
LANGUAGE sql STABLE
AS $$ SELECT a.refusal, a.backlog, a.transaction_age, a.dead_tuples FROM rvq.admission AS a $$;
COMMENT ON FUNCTION rvq.read_admission() IS 'Return why create refuses, or NULL, and what was measured last.';
