-- Tells for tasks about to be created which are new, and which came before under the same idempotency key.
-- p_refused: no new task is taken in now. A replay is still answered: it is no more work.
-- Locks: idempotency keys in order (it waits for a request with the same key).
CREATE OR REPLACE FUNCTION rvq.claim_idempotency_keys(
    p_keys text[], p_body_hashes bytea[], p_task_ids bigint[], p_refused boolean
) RETURNS TABLE (outcomes text[], task_ids bigint[])
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    IF NOT p_refused THEN
        INSERT INTO rvq.idempotency_keys (key, body_hash, task_id)
        SELECT n.key, n.body_hash, n.task_id
          FROM unnest(p_keys, p_body_hashes, p_task_ids) AS n(key, body_hash, task_id)
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
COMMENT ON FUNCTION rvq.claim_idempotency_keys(text[], bytea[], bigint[], boolean) IS
    'Claim idempotency keys for new tasks; return created, replayed, conflict or refused for each, and its task''s id.';
