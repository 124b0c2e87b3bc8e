-- Of tasks about to be created: which are new, and which came before under the same idempotency key.
-- p_refused: nothing new is taken in now; a replay is an answer, not more work.
-- Locks: idempotency keys in order (waits for twins under way).
-- Callers: rvq.create_tasks
CREATE OR REPLACE FUNCTION rvq.use_keys(p_keys text[], p_body_hashes bytea[], p_task_ids bigint[], p_refused boolean)
RETURNS TABLE (outcomes text[], task_ids bigint[])
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    IF NOT p_refused THEN
        INSERT INTO rvq.idempotency_keys (key, body_hash, task_id)
        SELECT n.key, n.body_hash, n.task_id FROM unnest(p_keys, p_body_hashes, p_task_ids) AS n(key, body_hash, task_id)
         WHERE n.key IS NOT NULL ORDER BY n.key COLLATE "C"
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN QUERY
    SELECT array_agg(CASE WHEN k.task_id = n.task_id THEN 'created'
                          WHEN k.body_hash = n.body_hash THEN 'replayed'
                          WHEN k.key IS NOT NULL THEN 'conflict'
                          WHEN n.key IS NULL AND NOT p_refused THEN 'created'
                          ELSE 'refused' END ORDER BY n.position),
           array_agg(coalesce(k.task_id, n.task_id) ORDER BY n.position)
      FROM unnest(p_keys, p_body_hashes, p_task_ids) WITH ORDINALITY AS n(key, body_hash, task_id, position)
      LEFT JOIN rvq.idempotency_keys AS k ON k.key = n.key;
END $$;
COMMENT ON FUNCTION rvq.use_keys(text[], bytea[], bigint[], boolean) IS
    'Take idempotency keys for new tasks: created, replayed, conflict or refused for each, with the id of its task.';
