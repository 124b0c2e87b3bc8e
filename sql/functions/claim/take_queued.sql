-- Takes a queue's oldest sub_tasks first: the requeued ones, which are older, then those queued for the first time.
-- Mostly nothing is requeued, and one statement finds that out and takes. When it finds nothing, what it passed over
-- because others had touched it is looked at too. From the second scan on nothing is waited for: the one before may
-- have locked a row that was claimed meanwhile, though it took none.
-- p_holds_locks: the caller holds sub_tasks already, and must not wait for another.
-- Locks: sub_tasks by (queued_at, id), with SKIP LOCKED.
CREATE OR REPLACE FUNCTION rvq.take_queued(p_queue text, p_limit integer, p_holds_locks boolean) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_taken bigint[] := '{}';
BEGIN
    IF NOT p_holds_locks THEN
        v_taken := rvq.take_new(p_queue, p_limit, p_untouched => true);
        IF cardinality(v_taken) > 0 THEN
            RETURN v_taken;
        END IF;
    END IF;
    IF EXISTS (SELECT FROM rvq.open_sub_tasks AS s WHERE s.status = 'queued' AND s.requeued AND s.queue = p_queue) THEN
        v_taken := rvq.take_without_waiting('requeued', p_queue, p_limit);
    END IF;
    IF cardinality(v_taken) < p_limit THEN
        v_taken := v_taken || rvq.take_without_waiting('new', p_queue, p_limit - cardinality(v_taken));
    END IF;
    RETURN v_taken;
END $$;
COMMENT ON FUNCTION rvq.take_queued(text, integer, boolean) IS
    'Lock the oldest queued sub_tasks of a queue that nobody holds; return their ids.';
