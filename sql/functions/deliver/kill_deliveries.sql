-- Ends deliveries without an attempt, for a reason that the ledger keeps. The number of the entry is the next one,
-- 32767 at most: where an entry has that one already, it is changed. A delivery whose task or ledger is gone too only
-- leaves.
-- Locks: none of its own, the deliveries are locked.
CREATE OR REPLACE FUNCTION rvq.kill_deliveries(p_ids bigint[], p_outcome text, p_reason text, p_now timestamptz)
RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    WITH killed AS (
        DELETE FROM rvq.due_deliveries AS d WHERE d.id = ANY (p_ids)
        RETURNING d.id, d.queue, least(d.attempt + (d.lease_token IS NULL)::integer, 32767)::smallint AS attempt,
                  EXISTS (SELECT FROM rvq.tasks AS t WHERE t.id = rvq.task_of(d.id))
                  AND to_regclass('rvq.delivery_attempts_' || rvq.day_of(d.id)) IS NOT NULL AS is_known),
    entered AS (
        SELECT k.id FROM killed AS k JOIN rvq.delivery_attempts AS a ON a.id = k.id AND a.attempt = k.attempt),
    changed AS (
        UPDATE rvq.delivery_attempts AS a SET status = 'dead' FROM entered AS e
         WHERE a.id = e.id AND a.attempt = 32767),
    ledger AS (
        INSERT INTO rvq.delivery_attempts (id, started_at, ended_at, attempt, status, queue, outcome, detail)
        SELECT k.id, p_now, p_now, k.attempt, 'dead', k.queue, p_outcome, format('{"reason":"%s"}', p_reason)
          FROM killed AS k WHERE k.is_known AND k.id NOT IN (SELECT e.id FROM entered AS e))
    INSERT INTO rvq.counter_deltas (queue, deliveries_pending, deliveries_dead)
    SELECT k.queue, -count(*), nullif(count(*) FILTER (WHERE k.is_known), 0) FROM killed AS k GROUP BY k.queue;
END $$;
COMMENT ON FUNCTION rvq.kill_deliveries(bigint[], text, text, timestamptz) IS
    'Make these deliveries dead without sending anything.';
