-- While a long transaction keeps vacuum from removing them, the index entries of claimed sub_tasks stay in front of
-- those that are queued. The floor lets claim start past them. It may rise to a moment only once no writer that began
-- before that moment is under way, for such a writer may be a create with an older queued_at. All writers hold the
-- door. A floor that lies ahead is from before the clock was set back, and is lowered, or all that is created meanwhile
-- would be requeued. It walks the queues a batch at a time, as partners may name as many as they like; p_after is where
-- the last batch ended.
-- Locks: queues by name. It does not hold the door, it looks who does.
CREATE OR REPLACE FUNCTION rvq.raise_claim_floors(p_after text, p_limit integer)
RETURNS TABLE (last_queue text, raised integer)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_now timestamptz := rvq.clock();
    v_writers text[];
BEGIN
    v_writers := ARRAY(SELECT l.virtualtransaction FROM pg_locks AS l
                        WHERE l.locktype = 'advisory' AND l.classid = 1 AND l.objid = 0 AND l.objsubid = 2 AND l.granted
                          AND l.pid <> pg_backend_pid()
                          AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()));
    FOR i IN 1 .. 100 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM pg_locks AS l
                               WHERE l.locktype = 'advisory' AND l.classid = 1 AND l.objid = 0 AND l.objsubid = 2
                                 AND l.virtualtransaction = ANY (v_writers));
        IF i = 100 THEN
            last_queue := p_after;
            raised := 0;
            RETURN NEXT;
            RETURN;
        END IF;
        PERFORM pg_sleep(0.01);
    END LOOP;
    last_queue := (SELECT max(c.queue) FROM (SELECT l.queue FROM rvq.counters AS l WHERE l.queue > p_after
                                              ORDER BY l.queue LIMIT p_limit) AS c);
    UPDATE rvq.queues AS q SET claim_floor = v_now
     WHERE q.queue > p_after AND q.queue <= last_queue AND q.claim_floor > v_now + interval '1 minute';
    INSERT INTO rvq.queues AS q (queue, claim_floor)
    SELECT c.queue, f.floor
      FROM (SELECT l.queue FROM rvq.counters AS l WHERE l.queue > p_after AND l.queue <= last_queue) AS c
      LEFT JOIN rvq.queues AS k ON k.queue = c.queue
      CROSS JOIN LATERAL (
          SELECT least(v_now, (SELECT s.queued_at FROM rvq.open_sub_tasks AS s
                                WHERE s.status = 'queued' AND NOT s.requeued AND s.queue = c.queue
                                  AND s.queued_at >= coalesce(k.claim_floor, '-infinity')
                                ORDER BY s.queued_at, s.id LIMIT 1)) AS floor) AS f
     WHERE f.floor > coalesce(k.claim_floor, '-infinity')
     ORDER BY c.queue
    ON CONFLICT (queue) DO UPDATE SET claim_floor = greatest(q.claim_floor, excluded.claim_floor);
    GET DIAGNOSTICS raised = ROW_COUNT;
    IF NOT EXISTS (SELECT FROM rvq.counters AS l WHERE l.queue > last_queue) THEN
        last_queue := '';
    END IF;
    RETURN NEXT;
END $$;
COMMENT ON FUNCTION rvq.raise_claim_floors(text, integer) IS
    'Let claim start at the oldest queued sub_task of each queue, a batch of queues at a time; return the last queue '
    'it looked at ('''' after the last of all), and how many floors rose.';
