-- Hands out due deliveries, the host that waits longest first. A host never has more in flight over all dispatchers
-- than its own limit (p_hosts, p_host_limits), or p_host_limit where it has none, and none while its breaker is open.
-- That keeps one bad host from taking every thread. What can't be sent is set aside, so that it stops nothing else.
-- waited: seconds since the delivery was due.
-- Locks: door, the delivery claimers' lock (they take turns, so that the limits are exact), due_deliveries by id with
-- SKIP LOCKED.
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
    v_claimed rvq.due_deliveries[];
    v_host record;
    v_bodies text[];
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
         WHERE h.oldest_due_at <= v_now AND coalesce(b.broken_until, '-infinity') <= v_now ORDER BY h.oldest_due_at
    LOOP
        EXIT WHEN cardinality(v_ids) >= p_limit;
        -- Hosts that hang are the many, and there is nothing to pick for them.
        CONTINUE WHEN v_host.in_flight >= v_host.most;
        v_ids := v_ids || ARRAY(
            SELECT d.id FROM rvq.due_deliveries AS d
             WHERE d.host = v_host.host AND d.lease_token IS NULL AND d.due_at <= v_now
             ORDER BY d.due_at, d.id LIMIT least(v_host.most - v_host.in_flight, p_limit - cardinality(v_ids)));
    END LOOP;
    -- All are locked by one scan in the lock order, whatever the hosts: where SKIP LOCKED waits after all (see
    -- rvq.take_new), it holds only what comes before. They are named by id alone, or a plan might read the whole index
    -- of what is due instead.
    IF cardinality(v_ids) > 0 THEN
        SELECT array_agg(l.id) FILTER (WHERE l.lease_token IS NULL AND l.due_at <= v_now) INTO v_ids
          FROM (SELECT d.id, d.lease_token, d.due_at FROM rvq.due_deliveries AS d
                 WHERE d.id = ANY (v_ids) ORDER BY d.id FOR UPDATE SKIP LOCKED) AS l;
        WITH claimed AS (
            UPDATE rvq.due_deliveries AS d
               SET lease_token = rvq.lease_token(v_random, d.id),
                   lease_expires_at = v_now + make_interval(secs => p_lease_seconds),
                   claimed_at = v_now, attempt = d.attempt + 1, tries = d.tries + 1
             WHERE d.id = ANY (v_ids) AND greatest(d.attempt, d.tries) < 32766 RETURNING d.*)
        SELECT array_agg(c::rvq.due_deliveries ORDER BY c.id), rvq.bodies_of(array_agg(c.id ORDER BY c.id))
          INTO v_claimed, v_bodies FROM claimed AS c;
        IF cardinality(v_bodies) < cardinality(v_ids) OR array_position(v_bodies, NULL) IS NOT NULL THEN
            PERFORM rvq.set_aside_deliveries(v_ids, v_now);
        END IF;
        RETURN QUERY
        SELECT c.id, c.attempt::integer, c.tries::integer, c.url, c.host, v_bodies[c.ordinality], c.lease_token,
               extract(epoch FROM c.claimed_at - c.due_at)::float8
          FROM unnest(v_claimed) WITH ORDINALITY AS c WHERE v_bodies[c.ordinality] IS NOT NULL ORDER BY c.due_at, c.id;
    END IF;
END $$;
COMMENT ON FUNCTION rvq.claim_deliveries(integer, float8, integer, text[], integer[]) IS
    'Lease due deliveries to a dispatcher, fairly over hosts.';
