-- Locks: idempotency_keys by task, with SKIP LOCKED.
CREATE OR REPLACE FUNCTION rvq.delete_idempotency_keys(p_day integer, p_limit integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_deleted integer;
BEGIN
    DELETE FROM rvq.idempotency_keys AS k WHERE k.key IN (
        SELECT o.key FROM rvq.idempotency_keys AS o
         WHERE o.task_id >= p_day::bigint << 48 AND o.task_id < (p_day + 1)::bigint << 48
         ORDER BY o.task_id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_deleted = ROW_COUNT;
    RETURN v_deleted;
END $$;
COMMENT ON FUNCTION rvq.delete_idempotency_keys(integer, integer) IS
    'Delete idempotency keys of tasks made on that day, a batch at a time; return how many.';
