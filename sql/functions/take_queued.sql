-- A queue's oldest first: those queued again, which are the older ones, then those queued for the first time. Mostly nothing
-- is queued again, and one statement finds that out and takes. When it finds nothing, what it passed over because somebody
-- had touched it is looked at too.
-- p_holds: the caller holds sub_tasks already, and must not wait.
-- Locks: sub_tasks with SKIP LOCKED, see rvq.take_lane and rvq.take_more_of_lane.
-- Callers: rvq.claim_sub_tasks
CREATE OR REPLACE FUNCTION rvq.take_queued(p_queue text, p_limit integer, p_holds boolean) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_taken bigint[] := '{}';
BEGIN
    IF NOT p_holds THEN
        v_taken := rvq.take_lane(p_queue, NULL, p_limit);
        IF cardinality(v_taken) > 0 THEN
            RETURN v_taken;
        END IF;
    END IF;
    IF EXISTS (SELECT FROM rvq.open_sub_tasks AS s WHERE s.status = 'queued' AND s.again AND s.queue = p_queue) THEN
        IF p_holds THEN
            v_taken := rvq.take_more_of_lane(p_queue, true, p_limit);
        ELSE
            v_taken := rvq.take_lane(p_queue, true, p_limit);
        END IF;
    END IF;
    IF cardinality(v_taken) < p_limit THEN
        v_taken := v_taken || rvq.take_more_of_lane(p_queue, false, p_limit - cardinality(v_taken));
    END IF;
    RETURN v_taken;
END $$;
COMMENT ON FUNCTION rvq.take_queued(text, integer, boolean) IS 'Lock the oldest queued sub_tasks of a queue that nobody holds; their ids.';
