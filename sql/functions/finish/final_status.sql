-- The time does not say which outcome is the last one, for a clock may be set back. The attempt does; and of the same
-- attempt, what was cancelled had failed before, or had been cancelled before, and was reopened.
CREATE OR REPLACE FUNCTION rvq.final_status(p_id bigint) RETURNS rvq.outcome_status
LANGUAGE sql STABLE
AS $$
    SELECT o.status FROM rvq.outcomes AS o WHERE o.id = p_id AND o.status <> 'retrying'
     ORDER BY o.attempt DESC, o.status DESC LIMIT 1
$$;
COMMENT ON FUNCTION rvq.final_status(bigint) IS 'Return how a sub_task that is not open ended last.';
