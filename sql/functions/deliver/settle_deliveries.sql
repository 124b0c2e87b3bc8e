-- Records attempts and what follows from each. p_decisions: delivered, dead or retry (after p_delays seconds). A lease
-- that is lost changes nothing: whoever holds it now will settle it.
-- Locks: door, due_deliveries by id, webhook_hosts by host; then it only inserts.
CREATE OR REPLACE FUNCTION rvq.settle_deliveries(
    p_ids bigint[], p_lease_tokens uuid[], p_decisions text[], p_delays float8[], p_seconds float8[], p_outcomes text[],
    p_status_codes integer[], p_details text[], p_answers bytea[]
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_settled bigint[];
    v_hosts text[];
    v_healthy boolean[];
    v_now timestamptz;
BEGIN
    PERFORM rvq.hold_door();
    PERFORM 1 FROM rvq.due_deliveries AS d WHERE d.id = ANY (p_ids) ORDER BY d.id FOR UPDATE;
    v_now := rvq.clock();
    WITH attempted AS (
        SELECT * FROM unnest(p_ids, p_lease_tokens, p_decisions, p_delays, p_seconds, p_outcomes, p_status_codes,
                             p_details, p_answers)
            AS a(id, lease_token, decision, delay, seconds, outcome, status_code, detail, answer)),
    ended AS (
        DELETE FROM rvq.due_deliveries AS d USING attempted AS a
         WHERE d.id = a.id AND d.lease_token = a.lease_token AND a.decision <> 'retry'
        RETURNING d.id, d.attempt, d.queue, d.host, a.decision::rvq.delivery_status AS status, a.seconds, a.outcome,
                  a.status_code, a.detail, a.answer),
    retried AS (
        UPDATE rvq.due_deliveries AS d
           SET due_at = (SELECT rvq.clock()) + make_interval(secs => a.delay), wait_seconds = ceil(a.delay),
               lease_token = NULL, lease_expires_at = NULL, claimed_at = NULL
          FROM attempted AS a WHERE d.id = a.id AND d.lease_token = a.lease_token AND a.decision = 'retry'
        RETURNING d.id, d.attempt, d.queue, d.host, 'pending'::rvq.delivery_status AS status, a.seconds, a.outcome,
                  a.status_code, a.detail, a.answer),
    settled AS (SELECT * FROM ended UNION ALL SELECT * FROM retried),
    ledger AS (
        INSERT INTO rvq.delivery_attempts (id, started_at, ended_at, attempt, status_code, status, queue, outcome,
                                           detail, answer)
        SELECT s.id, v_now - make_interval(secs => s.seconds), v_now, s.attempt, s.status_code, s.status, s.queue,
               s.outcome, s.detail, s.answer
          FROM settled AS s),
    counted AS (
        INSERT INTO rvq.counter_deltas (queue, deliveries_pending, deliveries_delivered, deliveries_dead)
        SELECT e.queue, -count(*), nullif(count(*) FILTER (WHERE e.status = 'delivered'), 0),
               nullif(count(*) FILTER (WHERE e.status = 'dead'), 0)
          FROM ended AS e GROUP BY e.queue)
    SELECT array_agg(s.id), array_agg(s.host), array_agg(s.outcome IN ('delivered', 'gone', 'http_error'))
      INTO v_settled, v_hosts, v_healthy FROM settled AS s;
    PERFORM rvq.record_host_health(v_hosts, v_healthy);
    RETURN coalesce(v_settled, '{}');
END $$;
COMMENT ON FUNCTION
    rvq.settle_deliveries(bigint[], uuid[], text[], float8[], float8[], text[], integer[], text[], bytea[]) IS
    'Record delivery attempts and what follows; return the deliveries whose lease still held.';
