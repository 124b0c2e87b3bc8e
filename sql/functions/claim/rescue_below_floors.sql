-- A clock that steps back at the very moment when a floor rises may leave a new sub_task below it, where claim does not
-- look. Once requeued, it is found. This walks the dead entries that the floor is there to avoid: once a minute, not at
-- each claim.
-- Locks: door; sub_tasks by (queued_at, id), with SKIP LOCKED.
CREATE OR REPLACE FUNCTION rvq.rescue_below_floors() RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_rescued integer;
BEGIN
    PERFORM rvq.hold_door();
    WITH below AS MATERIALIZED (
        SELECT s.id
          FROM rvq.queues AS q
          JOIN rvq.open_sub_tasks AS s
            ON s.status = 'queued' AND NOT s.requeued AND s.queue = q.queue AND s.queued_at < q.claim_floor
         ORDER BY s.queued_at, s.id FOR UPDATE OF s SKIP LOCKED)
    UPDATE rvq.open_sub_tasks AS s SET requeued = true FROM below AS b WHERE s.id = b.id;
    GET DIAGNOSTICS v_rescued = ROW_COUNT;
    RETURN v_rescued;
END $$;
COMMENT ON FUNCTION rvq.rescue_below_floors() IS
    'Requeue the sub_tasks that are queued below their queue''s floor; return how many.';
