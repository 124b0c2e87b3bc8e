-- The attempt comes before the time: a clock that was set back must not bring an older outcome to the front.
CREATE OR REPLACE FUNCTION rvq.final_status(p_id bigint) RETURNS rvq.outcome_status
LANGUAGE sql STABLE
AS $$
    SELECT o.status FROM rvq.outcomes AS o WHERE o.id = p_id AND o.status <> 'retrying'
     ORDER BY o.attempt DESC, o.ended_at DESC LIMIT 1
$$;
COMMENT ON FUNCTION rvq.final_status(bigint) IS 'Return how a sub_task that is not open ended last.';
