-- Hands out due deliveries, the host that waits longest first. A host never has more in flight over all dispatchers
-- than its own limit (p_hosts, p_host_limits), or p_host_limit where it has none, and none while its breaker is open
-- (a minute at most: beyond that it was opened before the clock was set back). That keeps one bad host from taking
-- every thread. What can't be sent is set aside, so that it stops nothing else. waited: seconds since it was due.
-- Locks: door, the delivery claimers' lock (taking turns makes the limits exact), due_deliveries by id, SKIP LOCKED.
CREATE OR REPLACE FUNCTION rvq.claim_deliveries(
    p_limit integer, p_lease_seconds float8, p_host_limit integer, p_hosts text[] DEFAULT '{}',
    p_host_limits integer[] DEFAULT '{}'
) RETURNS TABLE (id bigint, attempt integer, tries integer, url text, host text, body text, lease_token uuid,
                 waited float8)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_now timestamptz;
    v_ids bigint[] := '{}';
    v_host record;
    v_bodies text[];
    v_sent integer;
    v_random text := rvq.random_hex();
BEGIN
    PERFORM rvq.hold_door();
    PERFORM pg_advisory_xact_lock(1, 3);
    v_now := rvq.clock();
    FOR v_host IN
        SELECT h.host, CASE WHEN b.broken_until > '-infinity' THEN 1
                            ELSE coalesce(p_host_limits[array_position(p_hosts, h.host)], p_host_limit) END AS most,
               (SELECT count(*) FROM rvq.due_deliveries AS d
                 WHERE d.host = h.host AND d.lease_token IS NOT NULL)::integer AS in_flight
          FROM rvq.list_due_hosts() AS h LEFT JOIN rvq.webhook_hosts AS b ON b.host = h.host
         WHERE h.oldest_due_at <= v_now
           AND (b.broken_until > v_now AND b.broken_until <= v_now + interval '1 minute') IS NOT TRUE
         ORDER BY h.oldest_due_at
    LOOP
        EXIT WHEN cardinality(v_ids) >= p_limit;
        CONTINUE WHEN v_host.in_flight >= v_host.most; -- Hosts that hang are the many.
        v_ids := v_ids || ARRAY(
            SELECT d.id FROM rvq.due_deliveries AS d
             WHERE d.host = v_host.host AND d.lease_token IS NULL AND d.due_at <= v_now
             ORDER BY d.due_at, d.id LIMIT least(v_host.most - v_host.in_flight, p_limit - cardinality(v_ids)));
    END LOOP;
    -- One scan in the lock order locks all: where SKIP LOCKED waits after all (see rvq.take_new), it holds only what
    -- comes before. They are named by id alone, or a plan might read the whole index of what is due instead.
    IF cardinality(v_ids) > 0 THEN
        SELECT array_agg(l.id ORDER BY l.id) FILTER (WHERE l.lease_token IS NULL AND l.due_at <= v_now) INTO v_ids
          FROM (SELECT d.id, d.lease_token, d.due_at FROM rvq.due_deliveries AS d
                 WHERE d.id = ANY (v_ids) ORDER BY d.id FOR UPDATE SKIP LOCKED) AS l;
        v_bodies := CASE WHEN v_ids IS NOT NULL THEN rvq.bodies_of(v_ids) END;
        -- The clock is read last: no wait is a part of the lease.
        RETURN QUERY
        WITH claimed AS (
            UPDATE rvq.due_deliveries AS d
               SET lease_token = rvq.lease_token(v_random, d.id), claimed_at = (SELECT rvq.clock()),
                   lease_expires_at = (SELECT rvq.clock() + make_interval(secs => p_lease_seconds)),
                   attempt = d.attempt + 1, tries = d.tries + 1
              FROM unnest(v_ids, v_bodies) AS b(id, body)
             WHERE d.id = b.id AND greatest(d.attempt, d.tries) < 32766 RETURNING d.*, b.body)
        SELECT c.id, c.attempt::integer, c.tries::integer, c.url, c.host, c.body, c.lease_token,
               extract(epoch FROM c.claimed_at - c.due_at)::float8
          FROM claimed AS c WHERE c.body IS NOT NULL ORDER BY c.due_at, c.id;
        GET DIAGNOSTICS v_sent = ROW_COUNT;
        IF v_sent < cardinality(v_ids) THEN
            PERFORM rvq.set_aside_deliveries(v_ids, v_now);
        END IF;
    END IF;
END $$;
COMMENT ON FUNCTION rvq.claim_deliveries(integer, float8, integer, text[], integer[]) IS
    'Lease due deliveries to a dispatcher, fairly over hosts.';
