-- Locks: sub_tasks in the order of their due times, with SKIP LOCKED, which may wait (see rvq.take_new).
CREATE OR REPLACE FUNCTION rvq.take_due(p_limit integer) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RETURN ARRAY(SELECT s.id FROM rvq.open_sub_tasks AS s WHERE s.status = 'scheduled' AND s.due_at <= rvq.clock()
                  ORDER BY s.due_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
END $$;
COMMENT ON FUNCTION rvq.take_due(integer) IS
    'Lock scheduled sub_tasks that are due and that nobody holds; return their ids.';
