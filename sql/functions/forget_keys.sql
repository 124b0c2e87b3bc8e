-- Locks: idempotency_keys, SKIP LOCKED.
-- Callers: rvq.drop_expired_partitions
CREATE OR REPLACE FUNCTION rvq.forget_keys(p_day integer, p_limit integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_forgotten integer;
BEGIN
    DELETE FROM rvq.idempotency_keys AS k WHERE k.key IN (
        SELECT o.key FROM rvq.idempotency_keys AS o
         WHERE o.task_id >= p_day::bigint << 48 AND o.task_id < (p_day + 1)::bigint << 48
         ORDER BY o.task_id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_forgotten = ROW_COUNT;
    RETURN v_forgotten;
END $$;
COMMENT ON FUNCTION rvq.forget_keys(integer, integer) IS 'Forget idempotency keys of tasks made on that day, a batch at a time; returns how many.';
