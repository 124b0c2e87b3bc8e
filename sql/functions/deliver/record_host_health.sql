-- The breaker: after five attempts in a row without an answer a host rests for 1 s, and twice as long each time up to a
-- minute; then one delivery probes it. Healthy hosts have no row, so a good delivery writes nothing here.
-- Locks: webhook_hosts by host.
CREATE OR REPLACE FUNCTION rvq.record_host_health(p_hosts text[], p_healthy boolean[]) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_host record;
BEGIN
    FOR v_host IN
        SELECT s.host, bool_or(s.healthy) AS healthy, count(*)::integer AS failures
          FROM unnest(p_hosts, p_healthy) AS s(host, healthy) GROUP BY s.host ORDER BY s.host
    LOOP
        IF v_host.healthy THEN
            DELETE FROM rvq.webhook_hosts AS h WHERE h.host = v_host.host;
        ELSE
            INSERT INTO rvq.webhook_hosts AS h (host, failures) VALUES (v_host.host, v_host.failures)
            ON CONFLICT (host) DO UPDATE SET failures = least(h.failures + v_host.failures, 1000);
            UPDATE rvq.webhook_hosts AS h
               SET broken_until = rvq.clock() + make_interval(secs => least(60, 2.0 ^ least(h.failures - 5, 6)))
             WHERE h.host = v_host.host AND h.failures >= 5;
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION rvq.record_host_health(text[], boolean[]) IS
    'Open, keep or close the breakers of these hosts.';
