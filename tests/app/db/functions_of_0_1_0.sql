-- The functions of 0.1.0, as it released them: what a database has before it is upgraded. Never changed.

-- function advance_tasks
-- Fan-in: takes ended sub_tasks off their tasks. The row lock makes the last one the only one that sees none left. A task that
-- its policy decides ends here: what is unfinished is cancelled, the event and its delivery are written.
-- p_was, p_statuses: what each sub_task was, and how it ended; NULL where a task is named that p_verdict ends, whatever its policy says.
-- Locks: tasks by id. The sub_tasks of a task that ends early here are locked already (rvq.enter_gates).
-- Callers: rvq.complete_sub_tasks, rvq.expire_leases, rvq.end_early, rvq.sweep_stranded_tasks
CREATE OR REPLACE FUNCTION rvq.advance_tasks(
    p_task_ids bigint[], p_was rvq.sub_task_status[], p_statuses rvq.outcome_status[], p_verdict rvq.task_status, p_now timestamptz
) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_ended bigint[];
    v_early bigint[];
BEGIN
    WITH step AS (
        SELECT e.task_id, count(e.status)::integer AS ended, count(*) FILTER (WHERE e.status = 'succeeded')::integer AS succeeded,
               count(*) FILTER (WHERE e.was = 'scheduled')::integer AS scheduled, count(*) FILTER (WHERE e.was = 'queued')::integer AS queued
          FROM unnest(p_task_ids, p_was, p_statuses) AS e(task_id, was, status) GROUP BY e.task_id ORDER BY e.task_id),
    task AS (
        UPDATE rvq.open_tasks AS t
           SET unfinished = t.unfinished - s.ended, succeeded = t.succeeded + s.succeeded, failed = t.failed + s.ended - s.succeeded
          FROM step AS s WHERE t.id = s.task_id
        RETURNING t.id, t.id + t.run AS event_id, t.created_at, t.total, t.unfinished, t.succeeded, t.failed, t.queue, t.webhook_url,
                  t.webhook_host, t.metadata, s.ended, s.succeeded AS well, s.scheduled, s.queued,
                  t.unfinished + s.ended < t.total AS started,
                  coalesce(p_verdict, rvq.verdict(t.policy, t.required, t.unfinished, t.succeeded, t.failed)) AS verdict),
    event AS (
        INSERT INTO rvq.events (id, xid, occurred_at, succeeded, failed, cancelled, status, queue, body)
        SELECT t.event_id, pg_current_xact_id(), p_now, t.succeeded, t.failed, t.total - t.succeeded - t.failed, t.verdict, t.queue,
               rvq.event_body(t.id, t.verdict, t.total, t.succeeded, t.failed, t.metadata, t.created_at, p_now)
          FROM task AS t WHERE t.verdict IS NOT NULL),
    due AS (
        INSERT INTO rvq.due_deliveries (id, due_at, queue, host, url)
        SELECT t.event_id, p_now, t.queue, t.webhook_host, t.webhook_url FROM task AS t
         WHERE t.verdict IS NOT NULL AND t.webhook_url IS NOT NULL),
    counted AS (
        INSERT INTO rvq.counter_deltas (queue, scheduled, queued, claimed, succeeded, failed, tasks_open, tasks_started, tasks_succeeded,
                                        tasks_failed, tasks_cancelled, deliveries_pending)
        SELECT t.queue, nullif(-sum(t.scheduled), 0), nullif(-sum(t.queued), 0), nullif(sum(t.scheduled + t.queued - t.ended), 0),
               nullif(sum(t.well), 0), nullif(sum(t.ended - t.well), 0), CASE WHEN t.verdict IS NOT NULL THEN -count(*) END,
               CASE WHEN t.verdict IS NULL AND NOT t.started THEN count(*) WHEN t.verdict IS NOT NULL AND t.started THEN -count(*) END,
               CASE WHEN t.verdict = 'succeeded' THEN count(*) END, CASE WHEN t.verdict = 'failed' THEN count(*) END,
               CASE WHEN t.verdict = 'cancelled' THEN count(*) END, CASE WHEN t.verdict IS NOT NULL THEN nullif(count(t.webhook_url), 0) END
          FROM task AS t GROUP BY t.queue, t.verdict, t.started)
    SELECT array_agg(t.id) FILTER (WHERE t.verdict IS NOT NULL), array_agg(t.id) FILTER (WHERE t.verdict IS NOT NULL AND t.unfinished > 0)
      INTO v_ended, v_early FROM task AS t;
    IF v_early IS NOT NULL THEN
        PERFORM rvq.cancel_open_sub_tasks(v_early, p_now);
    END IF;
    IF v_ended IS NOT NULL THEN
        DELETE FROM rvq.open_tasks AS t WHERE t.id = ANY (v_ended);
    END IF;
END $$;
COMMENT ON FUNCTION rvq.advance_tasks(bigint[], rvq.sub_task_status[], rvq.outcome_status[], rvq.task_status, timestamptz) IS
    'Count ended sub_tasks into their tasks and end the tasks that are decided: events, deliveries, what is unfinished cancelled.';

-- function audit
-- Counters and truth are read in one snapshot. Reads all facts: minutes on a large history, and blocks nobody.
-- Callers: app/admin/store.py, dispatcher/store.py (maintenance), the tests after every database test
CREATE OR REPLACE FUNCTION rvq.audit() RETURNS TABLE (queue text, counter text, counted bigint, truth bigint)
LANGUAGE sql STABLE
AS $$
    WITH truth AS (
        SELECT s.queue, s.status::text AS counter, count(*) AS n FROM rvq.open_sub_tasks AS s GROUP BY 1, 2
        UNION ALL
        SELECT t.queue, l.status::text, count(*)
          FROM (SELECT DISTINCT ON (o.id) o.id, o.status FROM rvq.outcomes AS o WHERE o.status <> 'retrying' ORDER BY o.id, o.attempt DESC, o.ended_at DESC) AS l
          JOIN rvq.tasks AS t ON t.id = rvq.task_of(l.id)
         WHERE NOT EXISTS (SELECT FROM rvq.open_sub_tasks AS s WHERE s.id = l.id) GROUP BY 1, 2
        UNION ALL
        SELECT t.queue, 'tasks_open', count(*) FROM rvq.open_tasks AS t GROUP BY 1
        UNION ALL
        SELECT t.queue, 'tasks_started', count(*) FROM rvq.open_tasks AS t WHERE t.unfinished < t.total GROUP BY 1
        UNION ALL
        SELECT t.queue, 'tasks_' || l.status, count(*)
          FROM (SELECT DISTINCT ON (rvq.task_of(e.id)) rvq.task_of(e.id) AS id, e.status FROM rvq.events AS e ORDER BY rvq.task_of(e.id), e.id DESC) AS l
          JOIN rvq.tasks AS t ON t.id = l.id
         WHERE NOT EXISTS (SELECT FROM rvq.open_tasks AS o WHERE o.id = l.id) GROUP BY 1, t.queue, l.status
        UNION ALL
        SELECT d.queue, 'deliveries_pending', count(*) FROM rvq.due_deliveries AS d GROUP BY 1
        UNION ALL
        SELECT t.queue, 'deliveries_' || l.status, count(*)
          FROM (SELECT DISTINCT ON (a.id) a.id, a.status FROM rvq.delivery_attempts AS a ORDER BY a.id, a.attempt DESC) AS l
          JOIN rvq.tasks AS t ON t.id = rvq.task_of(l.id)
         WHERE NOT EXISTS (SELECT FROM rvq.due_deliveries AS d WHERE d.id = l.id) GROUP BY t.queue, l.status),
    counted AS (
        SELECT c.queue, n.counter, n.n
          FROM rvq.current_counters AS c
          CROSS JOIN LATERAL (VALUES
              ('scheduled', c.scheduled), ('queued', c.queued), ('claimed', c.claimed), ('succeeded', c.succeeded), ('failed', c.failed),
              ('cancelled', c.cancelled), ('tasks_open', c.tasks_open), ('tasks_started', c.tasks_started),
              ('tasks_succeeded', c.tasks_succeeded), ('tasks_failed', c.tasks_failed), ('tasks_cancelled', c.tasks_cancelled),
              ('deliveries_pending', c.deliveries_pending), ('deliveries_delivered', c.deliveries_delivered),
              ('deliveries_dead', c.deliveries_dead)) AS n(counter, n))
    SELECT coalesce(c.queue, t.queue), coalesce(c.counter, t.counter), coalesce(c.n, 0), coalesce(t.n, 0)
      FROM counted AS c FULL JOIN truth AS t ON t.queue = c.queue AND t.counter = c.counter
     WHERE coalesce(c.n, 0) <> 0 OR coalesce(t.n, 0) <> 0
     ORDER BY 1, 2
$$;
COMMENT ON FUNCTION rvq.audit() IS 'Every counter that is not 0 beside what counting the rows gives; they should be equal.';

-- function cancel_open_sub_tasks
-- Locks: none of its own: the sub_tasks are locked.
-- Callers: rvq.advance_tasks
CREATE OR REPLACE FUNCTION rvq.cancel_open_sub_tasks(p_task_ids bigint[], p_now timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    WITH rest AS (
        DELETE FROM rvq.open_sub_tasks AS s USING unnest(p_task_ids) AS t(id)
         WHERE s.id > t.id AND s.id < t.id + 16384
        RETURNING s.id, s.attempt, s.worker_id, s.queue, s.status),
    fact AS (
        INSERT INTO rvq.outcomes (id, ended_at, attempt, status, worker_id)
        SELECT r.id, p_now, r.attempt, 'cancelled', r.worker_id FROM rest AS r)
    INSERT INTO rvq.counter_deltas (queue, scheduled, queued, claimed, cancelled)
    SELECT r.queue, nullif(-count(*) FILTER (WHERE r.status = 'scheduled'), 0), nullif(-count(*) FILTER (WHERE r.status = 'queued'), 0),
           nullif(-count(*) FILTER (WHERE r.status = 'claimed'), 0), count(*)
      FROM rest AS r GROUP BY r.queue;
END $$;
COMMENT ON FUNCTION rvq.cancel_open_sub_tasks(bigint[], timestamptz) IS 'Cancel whatever of these tasks is unfinished.';

-- function cancel_task
-- Locks: door, then as rvq.end_early.
-- Callers: app/partner/store.py, app/admin/store.py
CREATE OR REPLACE FUNCTION rvq.cancel_task(p_task_id bigint) RETURNS text
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
    PERFORM rvq.enter();
    IF cardinality(rvq.end_early(ARRAY[p_task_id], 'cancelled')) > 0 THEN
        RETURN 'cancelled';
    END IF;
    RETURN CASE WHEN EXISTS (SELECT FROM rvq.tasks AS t WHERE t.id = p_task_id) THEN 'finished' ELSE 'unknown' END;
END $$;
COMMENT ON FUNCTION rvq.cancel_task(bigint) IS 'Cancel an open task: cancelled, finished (too late) or unknown.';

-- function check_admission
-- Looks whether the queue is about to degrade, so that create says so (503) before claims get slow. Claims and completes go
-- on: they are the cure.
-- Other roles' transactions are seen by members of pg_read_all_stats only.
-- Locks: the row of rvq.admission.
-- Callers: dispatcher/store.py (maintenance)
CREATE OR REPLACE FUNCTION rvq.check_admission() RETURNS text
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_refusal text;
BEGIN
    UPDATE rvq.admission AS a
       SET checked_at = rvq.clock(), backlog = s.backlog, transaction_age = s.transaction_age, dead_tuples = s.dead_tuples,
           refusal = CASE
               WHEN s.backlog > a.max_backlog
                   THEN format('%s sub_tasks wait; the bound is %s', s.backlog, a.max_backlog)
               WHEN s.transaction_age > a.max_transaction_age
                   THEN format('a transaction is open for %s; the bound is %s', date_trunc('second', s.transaction_age), a.max_transaction_age)
               WHEN s.dead_tuples > a.max_dead_tuples
                   THEN format('%s dead tuples wait for vacuum; the bound is %s', s.dead_tuples, a.max_dead_tuples) END
      FROM (SELECT (SELECT coalesce(sum(c.queued + c.scheduled), 0) FROM rvq.counters AS c)::bigint AS backlog,
                   (SELECT coalesce(max(clock_timestamp() - t.xact_start), '0') FROM pg_stat_activity AS t
                     WHERE t.backend_xmin IS NOT NULL AND t.datname = current_database() AND t.pid <> pg_backend_pid()) AS transaction_age,
                   (SELECT coalesce(sum(t.n_dead_tup), 0) FROM pg_stat_user_tables AS t WHERE t.schemaname = 'rvq'
                       AND t.relname IN ('open_tasks', 'open_sub_tasks', 'due_deliveries', 'counter_deltas'))::bigint AS dead_tuples) AS s
    RETURNING a.refusal INTO v_refusal;
    RETURN v_refusal;
END $$;
COMMENT ON FUNCTION rvq.check_admission() IS 'See how the queue does; returns why create refuses from now on, or NULL.';

-- function claim_deliveries
-- Hands out due deliveries, the host that waits longest first. A host never has more in flight over all dispatchers than
-- its own limit (p_hosts, p_host_limits), or p_host_limit where it has none, and none while its breaker is open: that is
-- what keeps one bad host from taking every thread. waited: seconds since it was due.
-- Locks: door, the delivery claimers' lock (they take turns, so that the caps are exact), due_deliveries by id with SKIP LOCKED.
-- Callers: dispatcher/store.py
CREATE OR REPLACE FUNCTION rvq.claim_deliveries(
    p_limit integer, p_lease_seconds float8, p_host_limit integer, p_hosts text[] DEFAULT '{}', p_host_limits integer[] DEFAULT '{}'
) RETURNS TABLE (id bigint, attempt integer, tries integer, url text, host text, body text, lease_token uuid, waited float8)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_now timestamptz;
    v_ids bigint[] := '{}';
    v_claimed rvq.due_deliveries[];
    v_host record;
    v_bodies text[];
    v_random text := rvq.draw();
BEGIN
    PERFORM rvq.enter();
    PERFORM pg_advisory_xact_lock(1, 3);
    v_now := rvq.clock();
    FOR v_host IN
        SELECT h.host, CASE WHEN b.broken_until > '-infinity' THEN 1
                            ELSE coalesce(p_host_limits[array_position(p_hosts, h.host)], p_host_limit) END AS most,
               (SELECT count(*) FROM rvq.due_deliveries AS d WHERE d.host = h.host AND d.lease_token IS NOT NULL)::integer AS in_flight
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
    -- One scan in the lock order, whatever the hosts: where SKIP LOCKED waits after all (see rvq.take_queued), it holds only
    -- what comes before. Named by id alone, or a plan might read the whole index of what is due instead.
    IF cardinality(v_ids) > 0 THEN
        SELECT array_agg(l.id) FILTER (WHERE l.lease_token IS NULL AND l.due_at <= v_now) INTO v_ids
          FROM (SELECT d.id, d.lease_token, d.due_at FROM rvq.due_deliveries AS d
                 WHERE d.id = ANY (v_ids) ORDER BY d.id FOR UPDATE SKIP LOCKED) AS l;
        WITH claimed AS (
            UPDATE rvq.due_deliveries AS d
               SET lease_token = rvq.lease_token(v_random, d.id), lease_expires_at = v_now + make_interval(secs => p_lease_seconds),
                   claimed_at = v_now, attempt = d.attempt + 1, tries = d.tries + 1
             WHERE d.id = ANY (v_ids) RETURNING d.*)
        SELECT array_agg(c::rvq.due_deliveries ORDER BY c.id), array_agg(c.id ORDER BY c.id) INTO v_claimed, v_ids FROM claimed AS c;
    END IF;
    IF cardinality(v_ids) > 0 THEN
        v_bodies := rvq.bodies_of(v_ids);
        RETURN QUERY
        SELECT c.id, c.attempt::integer, c.tries::integer, c.url, c.host, v_bodies[c.ordinality], c.lease_token,
               extract(epoch FROM c.claimed_at - c.due_at)::float8
          FROM unnest(v_claimed) WITH ORDINALITY AS c WHERE v_bodies[c.ordinality] IS NOT NULL ORDER BY c.due_at, c.id;
    END IF;
END $$;
COMMENT ON FUNCTION rvq.claim_deliveries(integer, float8, integer, text[], integer[]) IS 'Lease due deliveries to a dispatcher, fairly over hosts.';

-- function claim_sub_tasks
-- Serves several claims that differ in their worker and limit only; many small requests are served by one call. Takes up
-- to the sum of p_limits, for the first claim first, the queues in the order given. When that is too few, what is
-- scheduled and due by now is queued and a second pass made. It goes no further once it has 16 MiB of payloads, and
-- looks at every 128, which are 32 MiB at most: a thousand of the largest would be 256 MiB, here and several times in the API.
-- Locked by one statement and updated by the next, which sees what was locked: an UPDATE that finds a row changed since its
-- snapshot runs what it joins once more, locks, limit and all.
-- Locks: door; sub_tasks with SKIP LOCKED, see rvq.take_queued. Writes no tasks row.
-- Callers: app/worker/store.py
CREATE OR REPLACE FUNCTION rvq.claim_sub_tasks(p_worker_ids text[], p_limits integer[], p_lease_seconds integer, p_queues text[])
RETURNS TABLE (claim integer, id bigint, queue text, attempt integer, max_attempts integer, payload text, lease_token uuid, lease_expires_at timestamptz)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_random text := rvq.draw();
    v_limit integer;
    v_starts integer[] := '{0}';
    v_left integer := 0;
    v_slot integer := 0;
    v_queue text;
    v_taken bigint[];
    v_payloads text[];
    v_room integer := 16777216;
    v_expires_at timestamptz;
BEGIN
    PERFORM rvq.enter();
    FOREACH v_limit IN ARRAY p_limits LOOP
        v_left := v_left + v_limit;
        v_starts := v_starts || v_left;
    END LOOP;
    v_expires_at := rvq.clock() + make_interval(secs => p_lease_seconds);
    FOR v_pass IN 1 .. 2 LOOP
        FOREACH v_queue IN ARRAY p_queues LOOP
            -- Promotion, before the second pass, holds sub_tasks too.
            v_taken := rvq.take_queued(v_queue, v_left, v_pass = 2 OR v_slot > 0);
            CONTINUE WHEN cardinality(v_taken) = 0;
            -- No more than one piece: the usual case, and a call less.
            IF cardinality(v_taken) <= 128 THEN
                v_payloads := rvq.payloads_of(v_taken);
            ELSE
                v_payloads := rvq.payloads_within(v_taken, v_room);
                v_taken := v_taken[:cardinality(v_payloads)];
            END IF;
            IF array_position(v_payloads, NULL) IS NOT NULL THEN
                RAISE data_corrupted USING MESSAGE = format('sub_task %s has no payload', v_taken[array_position(v_payloads, NULL)]);
            END IF;
            RETURN QUERY
            UPDATE rvq.open_sub_tasks AS s
               SET status = 'claimed', attempt = s.attempt + 1, worker_id = p_worker_ids[t.claim],
                   lease_token = rvq.lease_token(v_random, s.id), lease_expires_at = v_expires_at
              FROM (SELECT u.id, u.payload, width_bucket(v_slot + u.position::integer - 1, v_starts) AS claim
                      FROM unnest(v_taken, v_payloads) WITH ORDINALITY AS u(id, payload, position)) AS t
             WHERE s.id = t.id
            RETURNING t.claim, s.id, v_queue, s.attempt::integer, s.max_attempts::integer, t.payload, s.lease_token, s.lease_expires_at;
            INSERT INTO rvq.counter_deltas (queue, queued, claimed) VALUES (v_queue, -cardinality(v_taken), cardinality(v_taken));
            v_slot := v_slot + cardinality(v_taken);
            v_room := v_room - pg_column_size(v_payloads);
            v_left := CASE WHEN v_room > 0 THEN v_left - cardinality(v_taken) ELSE 0 END;
            EXIT WHEN v_left = 0;
        END LOOP;
        EXIT WHEN v_pass = 2 OR v_left = 0 OR rvq.promote_due(1000) = 0;
    END LOOP;
END $$;
COMMENT ON FUNCTION rvq.claim_sub_tasks(text[], integer[], integer, text[]) IS
    'Lease queued sub_tasks to workers and hand them out with their payloads; `claim` counts from 1.';

-- function clock
-- The only clock: the server's, moved by the setting rvq.clock_offset (seconds) in tests.
-- clock_timestamp() and not now(): a function may have waited for a lock since its transaction began.
CREATE OR REPLACE FUNCTION rvq.clock() RETURNS timestamptz
LANGUAGE sql VOLATILE
AS $$
    SELECT clock_timestamp() + make_interval(secs => coalesce(nullif(current_setting('rvq.clock_offset', true), ''), '0')::float8)
$$;
COMMENT ON FUNCTION rvq.clock() IS 'The time of everything RVQ decides: the server''s clock plus the setting rvq.clock_offset.';

-- function complete_sub_tasks
-- Stores what workers report, at most once a lease, and ends the tasks that this finishes. The reports may be of
-- several workers: many small requests are stored by one call.
-- Locks: door, gates by number, sub_tasks by (queued_at, id), tasks by id; then inserts (counters, outbox).
-- Callers: app/worker/store.py
CREATE OR REPLACE FUNCTION rvq.complete_sub_tasks(
    p_worker_ids text[], p_ids bigint[], p_lease_tokens uuid[], p_succeeded boolean[], p_results text[], p_errors text[],
    p_retryable boolean[], p_retry_after float8[]
) RETURNS text[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_outcomes text[] := array_fill(NULL::text, ARRAY[cardinality(p_ids)]);
    v_positions bigint[];
    v_task_ids bigint[];
    v_was rvq.sub_task_status[];
    v_statuses rvq.outcome_status[];
    v_gated bigint[];
    v_now timestamptz;
BEGIN
    PERFORM rvq.enter();
    v_gated := rvq.enter_gates(p_ids);
    IF cardinality(v_gated) > 0 THEN
        PERFORM rvq.lock_sub_tasks(p_ids || rvq.siblings_at_stake(v_gated, p_ids, p_succeeded));
    ELSE
        PERFORM rvq.lock_sub_tasks(p_ids);
    END IF;
    v_now := rvq.clock();
    WITH ended AS (
        DELETE FROM rvq.open_sub_tasks AS s USING unnest(p_ids, p_lease_tokens) WITH ORDINALITY AS r(id, lease_token, position)
         WHERE s.id = r.id AND s.lease_token = r.lease_token
           AND (p_succeeded[r.position] OR NOT p_retryable[r.position] OR s.attempt >= s.max_attempts)
        RETURNING r.position, s.id, s.lease_token, s.attempt, s.status AS was,
                  CASE WHEN p_succeeded[r.position] THEN 'succeeded' ELSE 'failed' END::rvq.outcome_status AS status),
    fact AS (
        INSERT INTO rvq.outcomes (id, lease_token, ended_at, attempt, status, worker_id, result, error)
        SELECT e.id, e.lease_token, v_now, e.attempt, e.status, p_worker_ids[e.position], p_results[e.position], p_errors[e.position]
          FROM ended AS e)
    SELECT array_agg(e.position), array_agg(rvq.task_of(e.id)), array_agg(e.was), array_agg(e.status)
      INTO v_positions, v_task_ids, v_was, v_statuses FROM ended AS e;
    IF false = ANY (p_succeeded) THEN
        v_outcomes := rvq.retry_reported(p_worker_ids, p_ids, p_lease_tokens, p_errors, p_retry_after, v_now);
    END IF;
    FOR i IN 1 .. coalesce(cardinality(v_positions), 0) LOOP
        v_outcomes[v_positions[i]] := v_statuses[i];
    END LOOP;
    IF v_task_ids IS NOT NULL THEN
        PERFORM rvq.advance_tasks(v_task_ids, v_was, v_statuses, NULL, v_now);
    END IF;
    IF array_position(v_outcomes, NULL) IS NOT NULL THEN
        v_outcomes := rvq.explain_reports(v_outcomes, p_ids, p_lease_tokens);
    END IF;
    RETURN v_outcomes;
END $$;
COMMENT ON FUNCTION rvq.complete_sub_tasks(text[], bigint[], uuid[], boolean[], text[], text[], boolean[], float8[]) IS
    'Store reports of workers; one outcome each, in order: succeeded, retrying, failed, duplicate, stale, unknown.';

-- function create_partitions
-- Makes the day partitions from today on that are missing, and has their readers written. A table is made beside its parent and attached, which takes
-- no lock that readers or writers of the parent would wait for. Rows are found by id alone: statistics of what partners and
-- workers sent are never asked for, and to gather them each time a day has grown by a tenth took a core for half a second.
-- Locks: the partitions' advisory lock, alone; parents in SHARE UPDATE EXCLUSIVE.
-- Callers: app/store.py, app/partner/store.py (no partition for today), dispatcher/store.py (maintenance)
CREATE OR REPLACE FUNCTION rvq.create_partitions(p_days_ahead integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_today integer := rvq.day_at(rvq.clock());
    v_table text;
    v_partition text;
    v_created integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(1, 1);
    FOR v_day IN v_today .. v_today + p_days_ahead LOOP
        FOREACH v_table IN ARRAY ARRAY['tasks', 'sub_tasks', 'outcomes', 'events', 'delivery_attempts'] LOOP
            v_partition := v_table || '_' || v_day;
            CONTINUE WHEN to_regclass('rvq.' || v_partition) IS NOT NULL;
            EXECUTE format('CREATE TABLE rvq.%I (LIKE rvq.%I INCLUDING ALL)'
                           ' WITH (autovacuum_analyze_scale_factor = 1, autovacuum_analyze_threshold = 10000)', v_partition, v_table);
            EXECUTE (SELECT format('ALTER TABLE rvq.%I ', v_partition) || string_agg(format('ALTER %I SET STATISTICS 0', a.attname), ', ')
                       FROM pg_attribute AS a
                      WHERE a.attrelid = format('rvq.%I', v_partition)::regclass AND a.attlen = -1 AND a.attnum > 0);
            EXECUTE format('ALTER TABLE rvq.%I ATTACH PARTITION rvq.%I FOR VALUES FROM (%s) TO (%s)',
                           v_table, v_partition, v_day::bigint << 48, (v_day + 1)::bigint << 48);
            EXECUTE format('COMMENT ON TABLE rvq.%I IS %L', v_partition,
                           format('rvq.%s of %s', v_table, '2024-01-01'::date + v_day));
            v_created := v_created + 1;
        END LOOP;
    END LOOP;
    -- Also where the partitions are older than the readers.
    IF v_created > 0 OR to_regprocedure('rvq.payloads_of(bigint[])') IS NULL THEN
        PERFORM rvq.write_readers();
    END IF;
    RETURN v_created;
END $$;
COMMENT ON FUNCTION rvq.create_partitions(integer) IS 'Make the partitions of today and the days ahead that are missing; returns how many.';

-- function create_tasks
-- Stores tasks with all their sub_tasks: many small requests are stored by one call. p_payloads and p_max_attempts have
-- those of all tasks, one task after the other; p_totals says how many are whose. The other arrays have one entry a task.
-- Locks: door, idempotency keys in order (waits for twins under way), then inserts only.
-- Errors: 23514 when no partition covers today (rvq.create_partitions makes it).
-- Callers: app/partner/store.py
CREATE OR REPLACE FUNCTION rvq.create_tasks(
    p_queues text[], p_totals integer[], p_payloads text[], p_max_attempts integer[], p_metadata text[], p_webhook_urls text[],
    p_webhook_hosts text[], p_not_before timestamptz[], p_policies text[], p_required integer[], p_deadline_seconds float8[],
    p_idempotency_keys text[], p_body_hashes bytea[]
) RETURNS TABLE (outcome text, task_id bigint, created_at timestamptz, scheduled boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_now timestamptz;
    v_refused boolean;
    v_ahead text[];
    v_starts integer[] := '{0}';
    v_ids bigint[] := '{}';
    v_outcomes text[];
    v_known bigint[];
BEGIN
    PERFORM rvq.enter();
    v_now := rvq.clock();
    -- What was checked long ago says nothing: nobody does the maintenance. Ahead: a clock that was set back must not put
    -- sub_tasks below the floor where claim starts to look.
    SELECT a.refusal IS NOT NULL AND a.checked_at > v_now - interval '1 minute',
           ARRAY(SELECT q.queue FROM rvq.queues AS q WHERE q.queue = ANY (p_queues) AND q.claim_floor > v_now)
      INTO v_refused, v_ahead FROM rvq.admission AS a;
    FOR v_place IN 1 .. cardinality(p_queues) LOOP
        v_ids := v_ids || rvq.new_task_id(v_now, p_policies[v_place] <> 'all');
        v_starts := v_starts || v_starts[v_place] + p_totals[v_place];
    END LOOP;
    IF num_nonnulls(VARIADIC p_idempotency_keys) = 0 THEN
        v_outcomes := array_fill(CASE WHEN v_refused THEN 'refused' ELSE 'created' END, ARRAY[cardinality(v_ids)]);
        v_known := v_ids;
    ELSE
        SELECT k.outcomes, k.task_ids INTO v_outcomes, v_known FROM rvq.use_keys(p_idempotency_keys, p_body_hashes, v_ids, v_refused) AS k;
    END IF;
    WITH task AS (
        SELECT i AS place, v_ids[i] AS id, p_totals[i] AS total, p_queues[i] AS queue,
               CASE WHEN p_not_before[i] > v_now THEN p_not_before[i] END AS due_at, p_policies[i]::rvq.completion_policy AS policy,
               p_required[i] AS required, p_deadline_seconds[i] AS deadline_seconds, p_webhook_urls[i] AS url, p_webhook_hosts[i] AS host,
               p_metadata[i] AS metadata
          FROM generate_series(1, cardinality(v_ids)) AS i WHERE v_outcomes[i] = 'created'),
    fact AS (
        INSERT INTO rvq.tasks (id, created_at, deadline_seconds, total, required, policy, queue, webhook_url, webhook_host, metadata)
        SELECT t.id, v_now, t.deadline_seconds, t.total, t.required, t.policy, t.queue, t.url, t.host, t.metadata FROM task AS t),
    open_task AS (
        INSERT INTO rvq.open_tasks (id, created_at, deadline_at, total, unfinished, required, policy, queue, webhook_url, webhook_host, metadata)
        SELECT t.id, v_now, v_now + make_interval(secs => t.deadline_seconds), t.total, t.total, t.required, t.policy, t.queue, t.url,
               t.host, t.metadata
          FROM task AS t),
    counted AS (
        INSERT INTO rvq.counter_deltas (queue, scheduled, queued, tasks_open)
        SELECT t.queue, CASE WHEN t.due_at IS NOT NULL THEN sum(t.total) END, CASE WHEN t.due_at IS NULL THEN sum(t.total) END, count(*)
          FROM task AS t GROUP BY t.queue, t.due_at),
    sub_task AS (
        SELECT t.id + s.number - v_starts[t.place] AS id, coalesce(t.due_at, v_now) AS queued_at, t.due_at, t.queue, s.max_attempts, s.payload
          FROM task AS t CROSS JOIN LATERAL (
              SELECT i AS number, p_max_attempts[i] AS max_attempts, p_payloads[i] AS payload
                FROM generate_series(v_starts[t.place] + 1, v_starts[t.place + 1]) AS i) AS s),
    sub_fact AS (
        INSERT INTO rvq.sub_tasks (id, queued_at, max_attempts, payload)
        SELECT s.id, s.queued_at, s.max_attempts, s.payload FROM sub_task AS s)
    INSERT INTO rvq.open_sub_tasks (id, queued_at, due_at, status, max_attempts, again, queue)
    SELECT s.id, s.queued_at, s.due_at, CASE WHEN s.due_at IS NULL THEN 'queued' ELSE 'scheduled' END::rvq.sub_task_status, s.max_attempts,
           s.queue = ANY (v_ahead), s.queue
      FROM sub_task AS s;
    FOR v_place IN 1 .. cardinality(p_queues) LOOP
        outcome := v_outcomes[v_place];
        task_id := v_known[v_place];
        created_at := v_now;
        scheduled := CASE WHEN outcome = 'created' THEN coalesce(p_not_before[v_place] > v_now, false) END;
        IF outcome <> 'created' THEN
            created_at := coalesce((SELECT t.created_at FROM rvq.tasks AS t WHERE t.id = task_id), v_now);
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
COMMENT ON FUNCTION rvq.create_tasks(
    text[], integer[], text[], integer[], text[], text[], text[], timestamptz[], text[], integer[], float8[], text[], bytea[]) IS
    'Store tasks with their sub_tasks: created, or with the known task replayed (same key and body) or conflict (other body), or refused.';

-- function day_at
CREATE OR REPLACE FUNCTION rvq.day_at(p_time timestamptz) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (p_time AT TIME ZONE 'UTC')::date - '2024-01-01'::date $$;
COMMENT ON FUNCTION rvq.day_at(timestamptz) IS 'A moment as days since 2024-01-01 UTC, the day number inside ids.';

-- function day_is_open
-- Callers: rvq.drop_expired_partitions, rvq.drop_day_of_tasks
CREATE OR REPLACE FUNCTION rvq.day_is_open(p_day integer) RETURNS boolean
LANGUAGE sql VOLATILE
AS $$
    SELECT EXISTS (SELECT FROM rvq.open_tasks AS t WHERE t.id >= p_day::bigint << 48 AND t.id < (p_day + 1)::bigint << 48)
        OR EXISTS (SELECT FROM rvq.open_sub_tasks AS s WHERE s.id >= p_day::bigint << 48 AND s.id < (p_day + 1)::bigint << 48)
        OR EXISTS (SELECT FROM rvq.due_deliveries AS d WHERE d.id >= p_day::bigint << 48 AND d.id < (p_day + 1)::bigint << 48)
$$;
COMMENT ON FUNCTION rvq.day_is_open(integer) IS 'Whether a task made on that day is unfinished, or a delivery of one is pending.';

-- function day_of
CREATE OR REPLACE FUNCTION rvq.day_of(p_id bigint) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (p_id >> 48)::integer $$;
COMMENT ON FUNCTION rvq.day_of(bigint) IS 'The day an id was made, in days since 2024-01-01 UTC: names the partition its facts are in.';

-- function draw
CREATE OR REPLACE FUNCTION rvq.draw() RETURNS text
LANGUAGE sql VOLATILE
AS $$ SELECT right(replace(gen_random_uuid()::text, '-', ''), 16) $$;
COMMENT ON FUNCTION rvq.draw() IS '16 hex digits, 62 bits of them from the server''s strong random source.';

-- function drop_day_of_tasks
-- Drops a day's tasks and takes what they count for out of the counters: both or neither. While it counts, no task or
-- delivery of the day can end (the tables that would say so are locked against writers); the day is looked at once more
-- when its tasks are locked, as an admin may have reopened one meanwhile.
-- Locks: outcomes, events and delivery_attempts of the day against writers (not waited for); then as rvq.drop_partition.
-- Callers: rvq.drop_expired_partitions
CREATE OR REPLACE FUNCTION rvq.drop_day_of_tasks(p_day integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    EXECUTE format('LOCK TABLE rvq.outcomes_%1$s, rvq.events_%1$s, rvq.delivery_attempts_%1$s IN SHARE MODE NOWAIT', p_day);
    IF rvq.day_is_open(p_day) THEN
        RETURN false;
    END IF;
    PERFORM rvq.uncount_day(p_day);
    IF NOT rvq.drop_partition('tasks', p_day) OR rvq.day_is_open(p_day) THEN
        RAISE lock_not_available;
    END IF;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;
COMMENT ON FUNCTION rvq.drop_day_of_tasks(integer) IS 'Drop the tasks of that day, counters included; false when it is open or a lock was not to be had.';

-- function drop_expired_partitions
-- Retention, one step a call: of the oldest expired day it can, it forgets a batch of idempotency keys, else drops a table.
-- The tasks go first, and with them everything that is counted; the rest of the day is unreachable from then on, as
-- whatever reopens a task or a delivery reads the task first. One table a transaction: no order of locks to get wrong.
-- Locks: door, then as rvq.drop_day_of_tasks or rvq.drop_partition; never waits long for one, the next call tries again.
-- Callers: dispatcher/store.py (maintenance)
CREATE OR REPLACE FUNCTION rvq.drop_expired_partitions(p_days integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_part record;
    v_forgotten integer;
BEGIN
    PERFORM rvq.enter();
    FOR v_part IN SELECT * FROM rvq.list_expired_partitions(p_days) LOOP
        IF v_part.parent <> 'tasks' THEN
            RETURN rvq.drop_partition(v_part.parent, v_part.day)::integer;
        ELSIF NOT rvq.day_is_open(v_part.day) THEN
            v_forgotten := rvq.forget_keys(v_part.day, 10000);
            IF v_forgotten > 0 THEN
                RETURN v_forgotten;
            END IF;
            -- One wait for a lock is enough for a call: others wait behind us.
            RETURN rvq.drop_day_of_tasks(v_part.day)::integer;
        END IF;
    END LOOP;
    RETURN 0;
END $$;
COMMENT ON FUNCTION rvq.drop_expired_partitions(integer) IS
    'Do the next step of dropping days that ended more than p_days ago; returns how much it did, 0 when nothing is left or can be done now.';

-- function drop_partition
-- The lock keeps readers and writers of the whole table out, for the moment that the catalog needs; the file goes after it.
-- Whoever comes while it is waited for waits too, hence the short timeout.
-- Locks: the parent and the partition, alone, for 50 ms at the most to get each.
-- Callers: rvq.drop_expired_partitions, rvq.drop_day_of_tasks
CREATE OR REPLACE FUNCTION rvq.drop_partition(p_parent text, p_day integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET lock_timeout = '50ms'
AS $$
BEGIN
    EXECUTE format('DROP TABLE rvq.%I', p_parent || '_' || p_day);
    RETURN true;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    RETURN false;
END $$;
COMMENT ON FUNCTION rvq.drop_partition(text, integer) IS 'Drop the partition of that day; false when a lock was not to be had.';

-- function end_early
-- Ends tasks from outside (cancel, deadline): waits for whoever is completing their sub_tasks, then looks again. A task that
-- ended and was reopened while we waited is left alone: the sub_tasks of its new run are not locked.
-- Locks: gates by number, sub_tasks by (queued_at, id), tasks by id.
-- Callers: rvq.cancel_task, rvq.end_overdue_tasks
CREATE OR REPLACE FUNCTION rvq.end_early(p_task_ids bigint[], p_status rvq.task_status) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_runs bigint[];
    v_open bigint[];
BEGIN
    PERFORM rvq.enter_gates(p_task_ids);
    v_runs := ARRAY(SELECT t.id + t.run FROM rvq.open_tasks AS t WHERE t.id = ANY (p_task_ids));
    PERFORM rvq.lock_sub_tasks(ARRAY(
        SELECT s.id FROM rvq.open_tasks AS t JOIN rvq.open_sub_tasks AS s ON s.id > t.id AND s.id < t.id + 16384
         WHERE t.id = ANY (p_task_ids)));
    v_open := ARRAY(SELECT t.id FROM rvq.open_tasks AS t WHERE t.id = ANY (p_task_ids) AND t.id + t.run = ANY (v_runs)
                     ORDER BY t.id FOR UPDATE);
    IF cardinality(v_open) > 0 THEN
        PERFORM rvq.advance_tasks(v_open, '{}', '{}', p_status, rvq.clock());
    END IF;
    RETURN v_open;
END $$;
COMMENT ON FUNCTION rvq.end_early(bigint[], rvq.task_status) IS 'End these tasks now, whatever is unfinished; returns those that were open.';

-- function end_overdue_tasks
-- Locks: door, then as rvq.end_early.
-- Callers: dispatcher/store.py (maintenance)
CREATE OR REPLACE FUNCTION rvq.end_overdue_tasks(p_limit integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
    PERFORM rvq.enter();
    RETURN cardinality(rvq.end_early(ARRAY(
        SELECT t.id FROM rvq.open_tasks AS t WHERE t.deadline_at <= rvq.clock() ORDER BY t.deadline_at LIMIT p_limit), 'failed'));
END $$;
COMMENT ON FUNCTION rvq.end_overdue_tasks(integer) IS 'Fail the tasks whose deadline has passed, a batch at a time; returns how many.';

-- function enter
-- The door: every function that writes holds it shared until its commit; rvq.reset holds it alone, so that its
-- TRUNCATE meets no half-done writer and can't be part of a deadlock. It also tells rvq.raise_claim_floors which
-- writers are under way.
CREATE OR REPLACE FUNCTION rvq.enter() RETURNS void
LANGUAGE sql VOLATILE
AS $$ SELECT pg_advisory_xact_lock_shared(1, 0) $$;
COMMENT ON FUNCTION rvq.enter() IS 'Hold the writers'' door, shared, until the end of the transaction.';

-- function enter_gates
-- A task whose policy may cancel its siblings is changed by one transaction at a time, the holder of its gate: only so
-- can that transaction know, before it locks any sub_task, whether it will need the siblings too, and lock all of
-- them in one pass in the one order. Tasks with policy "all" have no gate, and their ids say so.
-- Locks: gates by number. They come before every sub_task.
-- Callers: rvq.complete_sub_tasks, rvq.expire_leases, rvq.end_early
CREATE OR REPLACE FUNCTION rvq.enter_gates(p_ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_id bigint;
    v_any boolean := false;
    v_gated bigint[];
    v_gate integer;
BEGIN
    FOREACH v_id IN ARRAY p_ids LOOP
        v_any := rvq.is_gated(v_id);
        EXIT WHEN v_any;
    END LOOP;
    IF NOT v_any THEN
        RETURN '{}';
    END IF;
    v_gated := ARRAY(SELECT DISTINCT rvq.task_of(i) FROM unnest(p_ids) AS i WHERE rvq.is_gated(i) ORDER BY 1);
    FOR v_gate IN SELECT DISTINCT rvq.gate_of(i) FROM unnest(v_gated) AS i ORDER BY 1 LOOP
        PERFORM pg_advisory_xact_lock(2, v_gate);
    END LOOP;
    RETURN v_gated;
END $$;
COMMENT ON FUNCTION rvq.enter_gates(bigint[]) IS 'Hold the gates of those of the tasks with these ids (or sub_tasks'' ids) that have one; returns these tasks.';

-- function event_body
-- The JSON is put together by hand: metadata goes in as the partner's own bytes.
CREATE OR REPLACE FUNCTION rvq.event_body(
    p_task_id bigint, p_status rvq.task_status, p_total integer, p_succeeded integer, p_failed integer,
    p_metadata text, p_created_at timestamptz, p_finished_at timestamptz
) RETURNS text
LANGUAGE sql STABLE
AS $$
    SELECT format(
        '{"type":"task.%s","timestamp":"%s","data":{"task_id":"%s","status":"%s","counts":{"total":%s,"scheduled":0,"queued":0,'
        '"claimed":0,"succeeded":%s,"failed":%s,"cancelled":%s},"metadata":%s,"created_at":"%s","finished_at":"%s"}}',
        p_status::text, rvq.rfc3339(p_finished_at), rvq.external_id('task', p_task_id), p_status::text, p_total, p_succeeded, p_failed,
        p_total - p_succeeded - p_failed, coalesce(p_metadata, 'null'), rvq.rfc3339(p_created_at), rvq.rfc3339(p_finished_at))
$$;
COMMENT ON FUNCTION rvq.event_body(bigint, rvq.task_status, integer, integer, integer, text, timestamptz, timestamptz) IS
    'The body of a webhook, the very bytes that are signed and sent.';

-- function expire_delivery_leases
-- A dispatcher died, or lost the database, between its claim and its record: whether the receiver saw the event is not
-- known. The ledger says so and the delivery is due again at once, under the same webhook-id.
-- Locks: door, due_deliveries by id with SKIP LOCKED.
-- Callers: dispatcher/store.py (maintenance)
CREATE OR REPLACE FUNCTION rvq.expire_delivery_leases(p_limit integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_now timestamptz;
    v_lost bigint[];
BEGIN
    PERFORM rvq.enter();
    v_now := rvq.clock();
    v_lost := ARRAY(SELECT d.id FROM rvq.due_deliveries AS d
                     WHERE d.lease_token IS NOT NULL AND d.lease_expires_at <= v_now ORDER BY d.host, d.lease_expires_at LIMIT p_limit);
    SELECT array_agg(l.id) FILTER (WHERE l.lease_expires_at <= v_now) INTO v_lost
      FROM (SELECT d.id, d.lease_expires_at FROM rvq.due_deliveries AS d
             WHERE d.id = ANY (v_lost) ORDER BY d.id FOR UPDATE SKIP LOCKED) AS l;
    INSERT INTO rvq.delivery_attempts (id, started_at, ended_at, attempt, status, queue, outcome, detail)
    SELECT d.id, d.claimed_at, v_now, d.attempt, 'pending', d.queue, 'unknown', '{"reason":"dispatcher_lost"}'
      FROM rvq.due_deliveries AS d WHERE d.id = ANY (v_lost);
    UPDATE rvq.due_deliveries AS d SET due_at = v_now, lease_token = NULL, lease_expires_at = NULL, claimed_at = NULL
     WHERE d.id = ANY (v_lost);
    RETURN coalesce(cardinality(v_lost), 0);
END $$;
COMMENT ON FUNCTION rvq.expire_delivery_leases(integer) IS 'Make deliveries of dispatchers that vanished due again; returns how many.';

-- function expire_leases
-- A lease that ran out spends its attempt: back-off and retry, or failed. The token stays in the row, so that a late
-- report still counts as long as nobody took the sub_task over.
-- Token and time (it is set while claimed, and only then) are checked again where they are written: between the look and
-- the lock a worker may have reported, or extended the lease.
-- Locks: door, gates by number, sub_tasks by (queued_at, id), tasks by id.
-- Callers: dispatcher/store.py (maintenance)
CREATE OR REPLACE FUNCTION rvq.expire_leases(p_limit integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_error constant text := '{"code":"lease_expired","message":"the lease expired before the worker reported"}';
    v_ids bigint[];
    v_tokens uuid[];
    v_task_ids bigint[];
    v_was rvq.sub_task_status[];
    v_statuses rvq.outcome_status[];
    v_gated bigint[];
    v_expired integer;
    v_now timestamptz := rvq.clock();
BEGIN
    PERFORM rvq.enter();
    SELECT array_agg(e.id), array_agg(e.lease_token) INTO v_ids, v_tokens
      FROM (SELECT s.id, s.lease_token FROM rvq.open_sub_tasks AS s
             WHERE s.status = 'claimed' AND s.lease_expires_at <= v_now ORDER BY s.lease_expires_at LIMIT p_limit) AS e;
    IF v_ids IS NULL THEN
        RETURN 0;
    END IF;
    v_gated := rvq.enter_gates(v_ids);
    PERFORM rvq.lock_sub_tasks(v_ids || rvq.siblings_at_stake(v_gated, v_ids, array_fill(false, ARRAY[cardinality(v_ids)])));
    v_now := rvq.clock();
    WITH failed AS (
        DELETE FROM rvq.open_sub_tasks AS s USING unnest(v_ids, v_tokens) AS e(id, lease_token)
         WHERE s.id = e.id AND s.lease_token = e.lease_token AND s.lease_expires_at <= v_now
           AND s.attempt >= s.max_attempts
        RETURNING s.id, s.attempt, s.worker_id),
    retried AS (
        UPDATE rvq.open_sub_tasks AS s
           SET status = 'scheduled', due_at = v_now + rvq.retry_delay(s.attempt), again = true, lease_expires_at = NULL
          FROM unnest(v_ids, v_tokens) AS e(id, lease_token)
         WHERE s.id = e.id AND s.lease_token = e.lease_token AND s.lease_expires_at <= v_now
           AND s.attempt < s.max_attempts
        RETURNING s.id, s.attempt, s.worker_id, s.queue),
    fact AS (
        INSERT INTO rvq.outcomes (id, ended_at, attempt, status, worker_id, error)
        SELECT f.id, v_now, f.attempt, 'failed'::rvq.outcome_status, f.worker_id, v_error FROM failed AS f
        UNION ALL
        SELECT r.id, v_now, r.attempt, 'retrying', r.worker_id, v_error FROM retried AS r),
    counted AS (
        INSERT INTO rvq.counter_deltas (queue, scheduled, claimed) SELECT r.queue, count(*), -count(*) FROM retried AS r GROUP BY r.queue)
    SELECT array_agg(rvq.task_of(f.id)), array_agg('claimed'::rvq.sub_task_status), array_agg('failed'::rvq.outcome_status),
           count(*) + (SELECT count(*) FROM retried)
      INTO v_task_ids, v_was, v_statuses, v_expired FROM failed AS f;
    IF v_task_ids IS NOT NULL THEN
        PERFORM rvq.advance_tasks(v_task_ids, v_was, v_statuses, NULL, v_now);
    END IF;
    RETURN v_expired;
END $$;
COMMENT ON FUNCTION rvq.expire_leases(integer) IS 'End the leases that ran out, a batch at a time; returns how many.';

-- function explain_reports
-- Only for reports that changed nothing, which are rare: it may read facts through their parent tables.
-- Callers: rvq.complete_sub_tasks
CREATE OR REPLACE FUNCTION rvq.explain_reports(p_outcomes text[], p_ids bigint[], p_lease_tokens uuid[]) RETURNS text[]
LANGUAGE sql VOLATILE
AS $$
    SELECT array_agg(coalesce(r.outcome,
                              (SELECT 'duplicate' FROM rvq.outcomes AS o WHERE o.id = r.id AND o.lease_token = r.lease_token LIMIT 1),
                              (SELECT 'stale' FROM rvq.sub_tasks AS s WHERE s.id = r.id),
                              'unknown') ORDER BY r.position)
      FROM unnest(p_outcomes, p_ids, p_lease_tokens) WITH ORDINALITY AS r(outcome, id, lease_token, position)
$$;
COMMENT ON FUNCTION rvq.explain_reports(text[], bigint[], uuid[]) IS 'Why a report was not stored: duplicate, stale or unknown.';

-- function external_id
CREATE OR REPLACE FUNCTION rvq.external_id(p_prefix text, p_id bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_prefix || '_' || lpad(to_hex(p_id), 16, '0') $$;
COMMENT ON FUNCTION rvq.external_id(text, bigint) IS 'An id as partners and workers see it, such as task_0123456789abcdef.';

-- function final_status
-- The attempt comes before the time: a clock that was set back must not bring an older outcome to the front.
CREATE OR REPLACE FUNCTION rvq.final_status(p_id bigint) RETURNS rvq.outcome_status
LANGUAGE sql STABLE
AS $$
    SELECT o.status FROM rvq.outcomes AS o WHERE o.id = p_id AND o.status <> 'retrying' ORDER BY o.attempt DESC, o.ended_at DESC LIMIT 1
$$;
COMMENT ON FUNCTION rvq.final_status(bigint) IS 'How a sub_task that is not open ended last.';

-- function fold_counters
-- One folder at a time; a second one has nothing to do.
-- Locks: door, the folder's lock (not waited for), counters by queue.
-- Callers: dispatcher/store.py (maintenance)
CREATE OR REPLACE FUNCTION rvq.fold_counters() RETURNS integer
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_folded integer;
BEGIN
    PERFORM rvq.enter();
    IF NOT pg_try_advisory_xact_lock(1, 2) THEN
        RETURN 0;
    END IF;
    WITH gone AS (DELETE FROM rvq.counter_deltas RETURNING *),
    folded AS (
        INSERT INTO rvq.counters AS c
        SELECT g.queue, coalesce(sum(g.scheduled), 0), coalesce(sum(g.queued), 0), coalesce(sum(g.claimed), 0),
               coalesce(sum(g.succeeded), 0), coalesce(sum(g.failed), 0), coalesce(sum(g.cancelled), 0),
               coalesce(sum(g.tasks_open), 0), coalesce(sum(g.tasks_started), 0), coalesce(sum(g.tasks_succeeded), 0),
               coalesce(sum(g.tasks_failed), 0), coalesce(sum(g.tasks_cancelled), 0), coalesce(sum(g.deliveries_pending), 0),
               coalesce(sum(g.deliveries_delivered), 0), coalesce(sum(g.deliveries_dead), 0)
          FROM gone AS g GROUP BY g.queue ORDER BY g.queue
        ON CONFLICT (queue) DO UPDATE SET
            scheduled = c.scheduled + excluded.scheduled, queued = c.queued + excluded.queued, claimed = c.claimed + excluded.claimed,
            succeeded = c.succeeded + excluded.succeeded, failed = c.failed + excluded.failed, cancelled = c.cancelled + excluded.cancelled,
            tasks_open = c.tasks_open + excluded.tasks_open, tasks_started = c.tasks_started + excluded.tasks_started,
            tasks_succeeded = c.tasks_succeeded + excluded.tasks_succeeded, tasks_failed = c.tasks_failed + excluded.tasks_failed,
            tasks_cancelled = c.tasks_cancelled + excluded.tasks_cancelled,
            deliveries_pending = c.deliveries_pending + excluded.deliveries_pending,
            deliveries_delivered = c.deliveries_delivered + excluded.deliveries_delivered,
            deliveries_dead = c.deliveries_dead + excluded.deliveries_dead)
    SELECT count(*) INTO v_folded FROM gone;
    RETURN v_folded;
END $$;
COMMENT ON FUNCTION rvq.fold_counters() IS 'Move pending deltas into the counters; returns how many.';

-- function forget_keys
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

-- function gate_of
-- A fixed number of gates for any number of tasks: a batch over a thousand tasks must not fill the server's lock table.
-- Two tasks that share a gate only wait for each other a little more often.
CREATE OR REPLACE FUNCTION rvq.gate_of(p_id bigint) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT ((p_id >> 15) & 511)::integer $$;
COMMENT ON FUNCTION rvq.gate_of(bigint) IS 'The number of the gate of the task with this id (or sub_task''s id): its advisory lock is (2, number).';

-- function heartbeat_sub_tasks
-- A sub_task is claimed as long as lease_expires_at is set; the status is not asked, or a plan made on an empty queue would
-- go through all leases for each that is named. Nor is EXISTS, which may be answered by hashing the whole table.
-- Locks: door, sub_tasks by (queued_at, id).
-- Callers: app/worker/store.py
CREATE OR REPLACE FUNCTION rvq.heartbeat_sub_tasks(p_lease_seconds integer, p_ids bigint[], p_lease_tokens uuid[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
    PERFORM rvq.enter();
    PERFORM rvq.lock_sub_tasks(p_ids);
    UPDATE rvq.open_sub_tasks AS s SET lease_expires_at = rvq.clock() + make_interval(secs => p_lease_seconds)
      FROM unnest(p_ids, p_lease_tokens) AS l(id, lease_token)
     WHERE s.id = l.id AND s.lease_token = l.lease_token AND s.lease_expires_at IS NOT NULL;
    -- All are locked since before the update, so what matches now was extended.
    RETURN ARRAY(
        SELECT coalesce(
                   (SELECT CASE WHEN s.lease_token = l.lease_token AND s.lease_expires_at IS NOT NULL THEN 'extended' ELSE 'stale' END
                      FROM rvq.open_sub_tasks AS s WHERE s.id = l.id),
                   CASE WHEN rvq.final_status(l.id) = 'cancelled' THEN 'cancelled' END,
                   (SELECT 'stale' FROM rvq.sub_tasks AS s WHERE s.id = l.id),
                   'unknown')
          FROM unnest(p_ids, p_lease_tokens) WITH ORDINALITY AS l(id, lease_token, position) ORDER BY l.position);
END $$;
COMMENT ON FUNCTION rvq.heartbeat_sub_tasks(integer, bigint[], uuid[]) IS
    'Extend leases; one outcome each, in order: extended, stale, cancelled (stop working), unknown.';

-- function is_gated
CREATE OR REPLACE FUNCTION rvq.is_gated(p_id bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_id & 16384 <> 0 $$;
COMMENT ON FUNCTION rvq.is_gated(bigint) IS 'Whether the task of this id has a gate, for its policy may cancel sub_tasks (see rvq.enter_gates).';

-- function lease_token
-- Half random, so that nobody guesses it, and half the sub_task's id, so that one draw serves a whole claim: a token is
-- never used again, for this sub_task or any other.
CREATE OR REPLACE FUNCTION rvq.lease_token(p_random text, p_id bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (p_random || lpad(to_hex(p_id), 16, '0'))::uuid $$;
COMMENT ON FUNCTION rvq.lease_token(text, bigint) IS 'The lease token of a sub_task (or delivery) from the 16 random hex digits drawn for its claim.';

-- function list_deliveries
-- Newest first. Pending ones are read from where they are few; dead ones have a partial index.
-- Callers: app/admin/store.py
CREATE OR REPLACE FUNCTION rvq.list_deliveries(p_status text, p_host text, p_since timestamptz, p_limit integer, p_before bigint)
RETURNS TABLE (id bigint, status text, host text, url text, attempts integer, next_attempt_at timestamptz, last_outcome text,
               last_status_code integer, last_attempt_at timestamptz)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = 'force_custom_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT c.id, c.status, t.webhook_host, coalesce(d.url, t.webhook_url), coalesce(d.attempt, l.attempt)::integer, d.due_at,
                l.outcome, l.status_code::integer, l.ended_at
           FROM (%s) AS c(id, status)
           JOIN rvq.tasks AS t ON t.id = rvq.task_of(c.id)
           LEFT JOIN rvq.due_deliveries AS d ON d.id = c.id
           LEFT JOIN LATERAL (SELECT * FROM rvq.delivery_attempts AS a WHERE a.id = c.id ORDER BY a.attempt DESC LIMIT 1) AS l ON true
          WHERE c.id < $1 AND ($2 IS NULL OR t.webhook_host = $2) AND ($3 IS NULL OR coalesce(l.ended_at, d.due_at) >= $3)
          ORDER BY c.id DESC LIMIT $4',
        CASE WHEN p_status = 'pending' THEN 'SELECT d.id, ''pending'' FROM rvq.due_deliveries AS d'
             WHEN p_status IN ('delivered', 'dead') THEN format(
                'SELECT a.id, a.status::text FROM rvq.delivery_attempts AS a WHERE a.status = %L
                    AND NOT EXISTS (SELECT FROM rvq.delivery_attempts AS x WHERE x.id = a.id AND x.attempt > a.attempt)
                    AND NOT EXISTS (SELECT FROM rvq.due_deliveries AS d WHERE d.id = a.id)', p_status)
             ELSE 'SELECT e.id, coalesce(CASE WHEN d.id IS NOT NULL THEN ''pending'' END,
                          (SELECT a.status::text FROM rvq.delivery_attempts AS a WHERE a.id = e.id ORDER BY a.attempt DESC LIMIT 1))
                     FROM rvq.events AS e JOIN rvq.tasks AS t ON t.id = rvq.task_of(e.id)
                     LEFT JOIN rvq.due_deliveries AS d ON d.id = e.id WHERE t.webhook_url IS NOT NULL' END)
    USING p_before, p_host, p_since, p_limit;
END $$;
COMMENT ON FUNCTION rvq.list_deliveries(text, text, timestamptz, integer, bigint) IS
    'Deliveries with an id under p_before, newest first; status, host and since narrow the choice where they are not NULL.';

-- function list_deliveries_of_task
-- Callers: app/partner/store.py
CREATE OR REPLACE FUNCTION rvq.list_deliveries_of_task(p_task_id bigint)
RETURNS TABLE (delivery_id bigint, status text, url text, event_status text, created_at timestamptz, next_attempt_at timestamptz,
               attempt integer, started_at timestamptz, ended_at timestamptz, outcome text, status_code integer, detail text, answer bytea)
LANGUAGE sql STABLE
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
    SELECT e.id, CASE WHEN d.id IS NOT NULL THEN 'pending' ELSE l.status::text END, coalesce(d.url, t.webhook_url), e.status::text,
           e.occurred_at, d.due_at, a.attempt::integer, a.started_at, a.ended_at, a.outcome, a.status_code::integer, a.detail, a.answer
      FROM rvq.tasks AS t
      JOIN rvq.events AS e ON e.id >= t.id AND e.id < t.id + 16384
      LEFT JOIN rvq.due_deliveries AS d ON d.id = e.id
      LEFT JOIN LATERAL (SELECT x.status FROM rvq.delivery_attempts AS x WHERE x.id = e.id ORDER BY x.attempt DESC LIMIT 1) AS l ON true
      LEFT JOIN rvq.delivery_attempts AS a ON a.id = e.id
     WHERE t.id = p_task_id AND t.webhook_url IS NOT NULL
     ORDER BY e.id, a.attempt
$$;
COMMENT ON FUNCTION rvq.list_deliveries_of_task(bigint) IS 'The deliveries of a task, a row for each attempt made, or one where none was yet.';

-- function list_due_hosts
-- A loose index scan: one index probe a host, however many deliveries wait.
-- Callers: rvq.claim_deliveries, metrics
CREATE OR REPLACE FUNCTION rvq.list_due_hosts() RETURNS TABLE (host text, oldest_due_at timestamptz)
LANGUAGE sql STABLE
AS $$
    WITH RECURSIVE walk AS (
        (SELECT d.host, d.due_at FROM rvq.due_deliveries AS d WHERE d.lease_token IS NULL ORDER BY d.host, d.due_at LIMIT 1)
        UNION ALL
        SELECT n.host, n.due_at FROM walk AS w CROSS JOIN LATERAL (
            SELECT d.host, d.due_at FROM rvq.due_deliveries AS d WHERE d.lease_token IS NULL AND d.host > w.host
             ORDER BY d.host, d.due_at LIMIT 1) AS n)
    SELECT w.host, w.due_at FROM walk AS w
$$;
COMMENT ON FUNCTION rvq.list_due_hosts() IS 'Hosts with deliveries nobody is sending, and when the oldest of each is due.';

-- function list_events
-- Nothing ever appears behind a cursor handed out: an event is given only when every transaction that may yet write an
-- earlier one has ended. Those hold the door and have an xid below the event's; nobody else's transaction, in this database
-- or another, holds the feed back.
-- Two statements: whoever ends between them is not waited for, and is seen by the second one's snapshot.
-- Callers: app/partner/store.py
CREATE OR REPLACE FUNCTION rvq.list_events(p_after_xid xid8, p_after_id bigint, p_limit integer)
RETURNS TABLE (xid xid8, id bigint, body text)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_horizon xid8;
BEGIN
    v_horizon := coalesce(
        (SELECT x.xid
           FROM pg_snapshot_xip(pg_current_snapshot()) AS x(xid)
           JOIN pg_stat_activity AS a ON a.backend_xid = x.xid::xid AND a.datname = current_database()
           JOIN pg_locks AS l ON l.pid = a.pid AND l.locktype = 'advisory' AND l.classid = 1 AND l.objid = 0 AND l.objsubid = 2
          ORDER BY x.xid LIMIT 1),
        pg_snapshot_xmax(pg_current_snapshot()));
    RETURN QUERY
        SELECT e.xid, e.id, e.body FROM rvq.events AS e
         WHERE (e.xid, e.id) > (p_after_xid, p_after_id) AND e.xid < v_horizon
         ORDER BY e.xid, e.id LIMIT p_limit;
END $$;
COMMENT ON FUNCTION rvq.list_events(xid8, bigint, integer) IS 'Events after a place in the feed, in its order.';

-- function list_expired_partitions
-- Of a day, its tasks first while they are there, and nothing else of it: they say whether it may go.
-- Callers: rvq.drop_expired_partitions
CREATE OR REPLACE FUNCTION rvq.list_expired_partitions(p_days integer) RETURNS TABLE (parent text, day integer)
LANGUAGE sql VOLATILE
AS $$
    SELECT DISTINCT ON (p.day) p.parent, p.day
      FROM rvq.list_partitions() AS p
     WHERE p.day < rvq.day_at(rvq.clock()) - p_days
     ORDER BY p.day, p.parent <> 'tasks', p.parent
$$;
COMMENT ON FUNCTION rvq.list_expired_partitions(integer) IS 'The next partition to drop of each day that ended more than p_days ago, oldest first.';

-- function list_partitions
-- By name, `table_day`: a partition that somebody else made and named is none of ours.
-- Callers: rvq.list_expired_partitions, rvq.write_readers
CREATE OR REPLACE FUNCTION rvq.list_partitions() RETURNS TABLE (parent text, day integer)
LANGUAGE sql STABLE
AS $$
    SELECT k.relname::text, substr(c.relname, length(k.relname) + 2)::integer
      FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid JOIN pg_class AS k ON k.oid = i.inhparent
     WHERE k.relnamespace = 'rvq'::regnamespace AND k.relkind = 'p' AND c.relname ~ ('^' || k.relname || '_[0-9]+$')
$$;
COMMENT ON FUNCTION rvq.list_partitions() IS 'The partitions that rvq.create_partitions made and that are still there.';

-- function list_sub_tasks
-- In the order the partner gave them.
-- One batch may put a sub_task back and, as a sibling failed, cancel it at the same moment: cancelled is the later one.
-- Callers: app/partner/store.py
CREATE OR REPLACE FUNCTION rvq.list_sub_tasks(p_task_id bigint, p_status text, p_limit integer, p_after bigint)
RETURNS TABLE (id bigint, status text, attempt integer, max_attempts integer, payload text, result text, error text,
               queued_at timestamptz, finished_at timestamptz, worker_id text)
LANGUAGE sql STABLE
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
    SELECT s.id, v.status, coalesce(o.attempt, l.attempt)::integer, coalesce(o.max_attempts, s.max_attempts)::integer, s.payload,
           CASE WHEN o.id IS NULL THEN l.result END, l.error, s.queued_at,
           CASE WHEN o.id IS NULL THEN l.ended_at END, coalesce(o.worker_id, l.worker_id)
      FROM rvq.sub_tasks AS s
      LEFT JOIN rvq.open_sub_tasks AS o ON o.id = s.id
      LEFT JOIN LATERAL (SELECT * FROM rvq.outcomes AS c WHERE c.id = s.id AND (o.id IS NOT NULL OR c.status <> 'retrying')
                          ORDER BY c.attempt DESC, c.ended_at DESC, c.status = 'retrying' LIMIT 1) AS l ON true
      CROSS JOIN LATERAL (SELECT CASE WHEN o.id IS NOT NULL THEN o.status::text ELSE l.status::text END AS status) AS v
     WHERE s.id > greatest(p_after, p_task_id) AND s.id <= p_task_id | 16383 AND p_task_id & 16383 = 0
       AND (p_status IS NULL OR v.status = p_status)
     ORDER BY s.id LIMIT p_limit
$$;
COMMENT ON FUNCTION rvq.list_sub_tasks(bigint, text, integer, bigint) IS 'Sub_tasks of a task with an id over p_after, in order, of one status or of any.';

-- function list_tasks
-- Newest first. Each status is read from where it is few: open tasks, or events, of which a partial index has the
-- unsuccessful ones. Few may still be millions, all queued, and a handful running among them: which these are is found out
-- beforehand, and only what is listed is viewed.
-- Callers: app/partner/store.py
CREATE OR REPLACE FUNCTION rvq.list_tasks(p_status text, p_limit integer, p_before bigint) RETURNS SETOF rvq.task_view
LANGUAGE plpgsql STABLE
SET plan_cache_mode = 'force_custom_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_tried bigint[];
BEGIN
    IF p_status IS NULL THEN
        RETURN QUERY SELECT v.* FROM (SELECT t AS task FROM rvq.tasks AS t WHERE t.id < p_before ORDER BY t.id DESC LIMIT p_limit) AS l
                       CROSS JOIN LATERAL rvq.view_task(l.task) AS v ORDER BY v.id DESC;
    ELSIF p_status IN ('queued', 'running') THEN
        v_tried := ARRAY(SELECT t.id FROM rvq.tried_tasks() AS t(id));
        RETURN QUERY SELECT v.* FROM (SELECT o.id FROM rvq.open_tasks AS o
                                       WHERE o.id < p_before AND (o.unfinished < o.total OR o.id = ANY (v_tried)) = (p_status = 'running')
                                       ORDER BY o.id DESC LIMIT p_limit) AS l
                       JOIN rvq.tasks AS t ON t.id = l.id CROSS JOIN LATERAL rvq.view_task(t) AS v ORDER BY v.id DESC;
    ELSE
        RETURN QUERY EXECUTE format(
            'SELECT v.* FROM rvq.events AS e JOIN rvq.tasks AS t ON t.id = rvq.task_of(e.id)
               CROSS JOIN LATERAL rvq.view_task(t) AS v
              WHERE e.id < $1 AND e.status = %L AND v.status = %L
                AND NOT EXISTS (SELECT FROM rvq.events AS later WHERE later.id > e.id AND later.id < rvq.task_of(e.id) + 16384)
              ORDER BY e.id DESC LIMIT $2', p_status, p_status)
        USING p_before, p_limit;
    END IF;
END $$;
COMMENT ON FUNCTION rvq.list_tasks(text, integer, bigint) IS 'Tasks with an id under p_before, newest first, of one status or of any.';

-- function lock_sub_tasks
-- Locks: sub_tasks by (queued_at, id). The one place where more than one sub_task is waited for.
CREATE OR REPLACE FUNCTION rvq.lock_sub_tasks(p_ids bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    PERFORM 1 FROM rvq.open_sub_tasks AS s WHERE s.id = ANY (p_ids) ORDER BY s.queued_at, s.id FOR UPDATE;
END $$;
COMMENT ON FUNCTION rvq.lock_sub_tasks(bigint[]) IS 'Lock these open sub_tasks in the one lock order.';

-- function new_task_id
-- An id is day (15 bits) | sequence (33 bits) | gated (1 bit) | ordinal (14 bits). A task has ordinal 0, its sub_tasks 1 to
-- 10 000; its events count from 0 in a name space of their own. Unique as long as a day has under 8 billion tasks.
CREATE OR REPLACE FUNCTION rvq.new_task_id(p_time timestamptz, p_gated boolean) RETURNS bigint
LANGUAGE sql VOLATILE
AS $$ SELECT (rvq.day_at(p_time)::bigint << 48) | (nextval('rvq.task_sequence') << 15) | (p_gated::integer << 14) $$;
COMMENT ON FUNCTION rvq.new_task_id(timestamptz, boolean) IS 'A new task id, made of the day, a sequence and whether the task has a gate.';

-- function note_host_health
-- The breaker: after five attempts in a row without an answer a host rests, 1 s and twice as long each time up to a minute;
-- then one delivery probes it. Healthy hosts have no row, so a good delivery writes nothing here.
-- Locks: webhook_hosts by host.
-- Callers: rvq.settle_deliveries
CREATE OR REPLACE FUNCTION rvq.note_host_health(p_hosts text[], p_healthy boolean[], p_now timestamptz) RETURNS void
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
               SET broken_until = p_now + make_interval(secs => least(60, 2.0 ^ least(h.failures - 5, 6)))
             WHERE h.host = v_host.host AND h.failures >= 5;
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION rvq.note_host_health(text[], boolean[], timestamptz) IS 'Open, keep or close the breakers of these hosts.';

-- function oldest_queued_at
CREATE OR REPLACE FUNCTION rvq.oldest_queued_at(p_queue text) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_floor timestamptz := (SELECT q.claim_floor FROM rvq.queues AS q WHERE q.queue = p_queue);
BEGIN
    RETURN least(
        (SELECT s.queued_at FROM rvq.open_sub_tasks AS s WHERE s.status = 'queued' AND s.again AND s.queue = p_queue
          ORDER BY s.queued_at LIMIT 1),
        (SELECT s.queued_at FROM rvq.open_sub_tasks AS s WHERE s.status = 'queued' AND NOT s.again AND s.queue = p_queue
            AND s.queued_at >= coalesce(v_floor, '-infinity') ORDER BY s.queued_at LIMIT 1));
END $$;
COMMENT ON FUNCTION rvq.oldest_queued_at(text) IS 'Since when the oldest queued sub_task of a queue is queued.';

-- function payloads_within
-- The payloads of the first of these sub_tasks, 128 at a time, until they have p_bytes. What is not read was locked for nothing.
-- Callers: rvq.claim_sub_tasks
CREATE OR REPLACE FUNCTION rvq.payloads_within(p_ids bigint[], p_bytes integer) RETURNS text[]
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_payloads text[] := '{}';
BEGIN
    FOR v_first IN 1 .. cardinality(p_ids) BY 128 LOOP
        v_payloads := v_payloads || rvq.payloads_of(p_ids[v_first:v_first + 127]);
        EXIT WHEN pg_column_size(v_payloads) >= p_bytes;
    END LOOP;
    RETURN v_payloads;
END $$;
COMMENT ON FUNCTION rvq.payloads_within(bigint[], integer) IS 'By id, in their order, and no more once there are so many bytes.';

-- function promote_due
-- Locks: sub_tasks, see rvq.take_due. No door of its own where claim calls it: claim holds it.
-- Callers: rvq.claim_sub_tasks, dispatcher/store.py (maintenance)
CREATE OR REPLACE FUNCTION rvq.promote_due(p_limit integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_due bigint[];
    v_promoted integer;
BEGIN
    PERFORM rvq.enter();
    IF NOT EXISTS (SELECT FROM rvq.open_sub_tasks AS s WHERE s.status = 'scheduled' AND s.due_at <= rvq.clock()) THEN
        RETURN 0;
    END IF;
    v_due := rvq.take_due(p_limit);
    WITH promoted AS (
        UPDATE rvq.open_sub_tasks AS s SET status = 'queued', again = true, due_at = NULL
         WHERE s.id = ANY (v_due) RETURNING s.queue),
    counted AS (
        INSERT INTO rvq.counter_deltas (queue, scheduled, queued)
        SELECT p.queue, -count(*), count(*) FROM promoted AS p GROUP BY p.queue)
    SELECT count(*) INTO v_promoted FROM promoted;
    RETURN v_promoted;
END $$;
COMMENT ON FUNCTION rvq.promote_due(integer) IS 'Queue the scheduled sub_tasks whose time has come, a batch at a time; returns how many.';

-- function raise_claim_floors
-- While a long transaction keeps vacuum from removing them, the index entries of claimed sub_tasks stay in front of those
-- that are queued. The floor lets claim start past them. It may rise to a moment only once no writer that began before
-- that moment is under way, for such a writer may be a create with an older queued_at: they all hold the door.
-- Locks: queues by name. Takes no door, it looks who is inside.
-- Callers: dispatcher/store.py (maintenance)
CREATE OR REPLACE FUNCTION rvq.raise_claim_floors() RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_now timestamptz := rvq.clock();
    v_inside text[];
    v_raised integer;
BEGIN
    v_inside := ARRAY(SELECT l.virtualtransaction FROM pg_locks AS l
                       WHERE l.locktype = 'advisory' AND l.classid = 1 AND l.objid = 0 AND l.objsubid = 2 AND l.granted AND l.pid <> pg_backend_pid()
                         AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()));
    FOR i IN 1 .. 100 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM pg_locks AS l
                               WHERE l.locktype = 'advisory' AND l.classid = 1 AND l.objid = 0 AND l.objsubid = 2
                                 AND l.virtualtransaction = ANY (v_inside));
        IF i = 100 THEN
            RETURN 0;
        END IF;
        PERFORM pg_sleep(0.01);
    END LOOP;
    INSERT INTO rvq.queues AS q (queue, claim_floor)
    SELECT c.queue, f.floor
      FROM rvq.counters AS c
      LEFT JOIN rvq.queues AS k ON k.queue = c.queue
      CROSS JOIN LATERAL (
          SELECT least(v_now, (SELECT s.queued_at FROM rvq.open_sub_tasks AS s
                                WHERE s.status = 'queued' AND NOT s.again AND s.queue = c.queue
                                  AND s.queued_at >= coalesce(k.claim_floor, '-infinity')
                                ORDER BY s.queued_at, s.id LIMIT 1)) AS floor) AS f
     WHERE f.floor > coalesce(k.claim_floor, '-infinity')
     ORDER BY c.queue
    ON CONFLICT (queue) DO UPDATE SET claim_floor = greatest(q.claim_floor, excluded.claim_floor);
    GET DIAGNOSTICS v_raised = ROW_COUNT;
    RETURN v_raised;
END $$;
COMMENT ON FUNCTION rvq.raise_claim_floors() IS 'Let claim start at the oldest queued sub_task of each queue; returns how many floors rose.';

-- function read_admission
-- Callers: app/partner/store.py, app/admin/store.py
CREATE OR REPLACE FUNCTION rvq.read_admission() RETURNS TABLE (refusal text, backlog bigint, transaction_age interval, dead_tuples bigint)
LANGUAGE sql STABLE
AS $$ SELECT a.refusal, a.backlog, a.transaction_age, a.dead_tuples FROM rvq.admission AS a $$;
COMMENT ON FUNCTION rvq.read_admission() IS 'Why create refuses, or NULL, and what was measured last.';

-- function read_event
-- Callers: app/partner/store.py
CREATE OR REPLACE FUNCTION rvq.read_event(p_event_id bigint) RETURNS text
LANGUAGE sql STABLE
AS $$ SELECT e.body FROM rvq.events AS e WHERE e.id = p_event_id $$;
COMMENT ON FUNCTION rvq.read_event(bigint) IS 'The body of an event, as it is signed and sent; NULL when unknown.';

-- function read_queue
-- Callers: app/admin/store.py
CREATE OR REPLACE FUNCTION rvq.read_queue(p_queue text) RETURNS TABLE (paused boolean, scheduled bigint, queued bigint, claimed bigint)
LANGUAGE sql STABLE
AS $$
    SELECT coalesce((SELECT q.paused FROM rvq.queues AS q WHERE q.queue = p_queue), false),
           coalesce(sum(c.scheduled), 0)::bigint, coalesce(sum(c.queued), 0)::bigint, coalesce(sum(c.claimed), 0)::bigint
      FROM rvq.current_counters AS c WHERE c.queue = p_queue
$$;
COMMENT ON FUNCTION rvq.read_queue(text) IS 'Whether a queue is paused and what waits in it. A queue nobody used yet is empty and not paused.';

-- function read_task
-- Callers: app/partner/store.py, app/admin/store.py
CREATE OR REPLACE FUNCTION rvq.read_task(p_task_id bigint) RETURNS SETOF rvq.task_view
LANGUAGE sql STABLE
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$ SELECT v.* FROM rvq.tasks AS t CROSS JOIN LATERAL rvq.view_task(t) AS v WHERE t.id = p_task_id $$;
COMMENT ON FUNCTION rvq.read_task(bigint) IS 'A task and where it stands; no row when unknown.';

-- function redeliver
-- Makes deliveries pending again, their schedule from its start, under the same webhook-id. One that is pending already is
-- due now; one that is being sent is left alone.
-- Locks: door, due_deliveries by id (insert or update).
-- Callers: app/partner/store.py, app/admin/store.py
CREATE OR REPLACE FUNCTION rvq.redeliver(p_ids bigint[]) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_id bigint;
    v_last rvq.delivery_attempts;
    v_made integer := 0;
    v_task rvq.tasks;
BEGIN
    PERFORM rvq.enter();
    FOR v_id IN SELECT DISTINCT i FROM unnest(p_ids) AS i ORDER BY 1 LOOP
        SELECT * INTO v_task FROM rvq.tasks AS t WHERE t.id = rvq.task_of(v_id);
        CONTINUE WHEN v_task.webhook_url IS NULL OR NOT EXISTS (SELECT FROM rvq.events AS e WHERE e.id = v_id);
        LOOP
            INSERT INTO rvq.due_deliveries (id, due_at, queue, host, url)
            VALUES (v_id, rvq.clock(), v_task.queue, v_task.webhook_host, v_task.webhook_url) ON CONFLICT DO NOTHING;
            IF FOUND THEN
                -- Read only now: the insert waited for whoever was settling it, and nobody can settle it before we are done.
                SELECT * INTO v_last FROM rvq.delivery_attempts AS a WHERE a.id = v_id ORDER BY a.attempt DESC LIMIT 1;
                UPDATE rvq.due_deliveries AS d SET attempt = coalesce(v_last.attempt, 0) WHERE d.id = v_id;
                INSERT INTO rvq.counter_deltas (queue, deliveries_pending, deliveries_delivered, deliveries_dead)
                VALUES (v_task.queue, 1, -(v_last.status = 'delivered')::integer, -(v_last.status = 'dead')::integer);
                EXIT;
            END IF;
            UPDATE rvq.due_deliveries AS d SET due_at = rvq.clock(), tries = 0 WHERE d.id = v_id AND d.lease_token IS NULL;
            -- Neither: it was settled after the insert had met it, and is not pending any more.
            EXIT WHEN FOUND OR EXISTS (SELECT FROM rvq.due_deliveries AS d WHERE d.id = v_id);
        END LOOP;
        v_made := v_made + 1;
    END LOOP;
    RETURN v_made;
END $$;
COMMENT ON FUNCTION rvq.redeliver(bigint[]) IS 'Send these deliveries again; returns how many there are.';

-- function redeliver_task
-- Locks: door (before it reads: reset waits for readers), then as rvq.redeliver.
-- Callers: app/partner/store.py
CREATE OR REPLACE FUNCTION rvq.redeliver_task(p_task_id bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_id bigint;
BEGIN
    PERFORM rvq.enter();
    IF NOT EXISTS (SELECT FROM rvq.tasks AS t WHERE t.id = p_task_id) THEN
        RETURN -1;
    END IF;
    SELECT e.id INTO v_id FROM rvq.events AS e WHERE e.id >= p_task_id AND e.id < p_task_id + 16384 ORDER BY e.id DESC LIMIT 1;
    RETURN CASE WHEN v_id IS NULL THEN 0 ELSE rvq.redeliver(ARRAY[v_id]) END;
END $$;
COMMENT ON FUNCTION rvq.redeliver_task(bigint) IS 'Send the last event of a task again: 1, 0 (it has nothing to send) or -1 (unknown).';

-- function release_deliveries
-- Gives deliveries back that were not started: no attempt is spent, nothing is in the ledger.
-- Locks: door, due_deliveries by id.
-- Callers: dispatcher/store.py
CREATE OR REPLACE FUNCTION rvq.release_deliveries(p_ids bigint[], p_lease_tokens uuid[]) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_released integer;
BEGIN
    PERFORM rvq.enter();
    PERFORM 1 FROM rvq.due_deliveries AS d WHERE d.id = ANY (p_ids) ORDER BY d.id FOR UPDATE;
    UPDATE rvq.due_deliveries AS d
       SET attempt = d.attempt - 1, tries = d.tries - 1, lease_token = NULL, lease_expires_at = NULL, claimed_at = NULL
      FROM unnest(p_ids, p_lease_tokens) AS l(id, lease_token) WHERE d.id = l.id AND d.lease_token = l.lease_token;
    GET DIAGNOSTICS v_released = ROW_COUNT;
    RETURN v_released;
END $$;
COMMENT ON FUNCTION rvq.release_deliveries(bigint[], uuid[]) IS 'Give leased deliveries back as if never claimed; returns how many.';

-- function release_sub_tasks
-- Gives leases back; the attempt is not charged.
-- Written as rvq.heartbeat_sub_tasks, and for its reasons.
-- Locks: door, sub_tasks by (queued_at, id).
-- Callers: app/worker/store.py
CREATE OR REPLACE FUNCTION rvq.release_sub_tasks(p_ids bigint[], p_lease_tokens uuid[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_outcomes text[];
BEGIN
    PERFORM rvq.enter();
    PERFORM rvq.lock_sub_tasks(p_ids);
    v_outcomes := ARRAY(
        SELECT coalesce(
                   (SELECT CASE WHEN s.lease_token = l.lease_token AND s.lease_expires_at IS NOT NULL THEN 'released' ELSE 'stale' END
                      FROM rvq.open_sub_tasks AS s WHERE s.id = l.id),
                   (SELECT 'stale' FROM rvq.sub_tasks AS s WHERE s.id = l.id),
                   'unknown')
          FROM unnest(p_ids, p_lease_tokens) WITH ORDINALITY AS l(id, lease_token, position) ORDER BY l.position);
    WITH released AS (
        UPDATE rvq.open_sub_tasks AS s
           SET status = 'queued', attempt = s.attempt - 1, again = true, lease_token = NULL, lease_expires_at = NULL, worker_id = NULL
          FROM unnest(p_ids, p_lease_tokens) AS l(id, lease_token)
         WHERE s.id = l.id AND s.lease_token = l.lease_token AND s.lease_expires_at IS NOT NULL
        RETURNING s.queue)
    INSERT INTO rvq.counter_deltas (queue, queued, claimed)
    SELECT r.queue, count(*), -count(*) FROM released AS r GROUP BY r.queue;
    RETURN v_outcomes;
END $$;
COMMENT ON FUNCTION rvq.release_sub_tasks(bigint[], uuid[]) IS
    'Give leases back without charging the attempt; one outcome each, in order: released, stale, unknown.';

-- function repair_counters
-- Drift does not change while traffic goes on (counter and truth move together), so adding its opposite is exact
-- without stopping anybody. One at a time, or two would both add it.
-- Locks: door, the repairers' lock.
-- Callers: app/admin/store.py
CREATE OR REPLACE FUNCTION rvq.repair_counters() RETURNS integer
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_drift record;
    v_repaired integer := 0;
BEGIN
    PERFORM rvq.enter();
    PERFORM pg_advisory_xact_lock(1, 4);
    FOR v_drift IN SELECT a.queue, a.counter, a.truth - a.counted AS missing FROM rvq.audit() AS a WHERE a.truth <> a.counted LOOP
        EXECUTE format('INSERT INTO rvq.counter_deltas (queue, %I) VALUES ($1, $2)', v_drift.counter)
        USING v_drift.queue, v_drift.missing;
        v_repaired := v_repaired + 1;
    END LOOP;
    RETURN v_repaired;
END $$;
COMMENT ON FUNCTION rvq.repair_counters() IS 'Set counters that drifted to the truth; returns how many.';

-- function rescue_below_floors
-- A clock that steps back at the very moment when a floor rises may leave a new sub_task below it, where claim does not
-- look. Queued again, it is found. It walks the dead entries that the floor is there to avoid: once a minute, not at each claim.
-- Locks: door; sub_tasks with SKIP LOCKED.
-- Callers: dispatcher/store.py (maintenance)
CREATE OR REPLACE FUNCTION rvq.rescue_below_floors() RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_rescued integer;
BEGIN
    PERFORM rvq.enter();
    WITH below AS MATERIALIZED (
        SELECT s.id
          FROM rvq.queues AS q
          JOIN rvq.open_sub_tasks AS s ON s.status = 'queued' AND NOT s.again AND s.queue = q.queue AND s.queued_at < q.claim_floor
         ORDER BY s.queued_at, s.id FOR UPDATE OF s SKIP LOCKED)
    UPDATE rvq.open_sub_tasks AS s SET again = true FROM below AS b WHERE s.id = b.id;
    GET DIAGNOSTICS v_rescued = ROW_COUNT;
    RETURN v_rescued;
END $$;
COMMENT ON FUNCTION rvq.rescue_below_floors() IS 'Queue again what is queued below its queue''s floor; returns how many.';

-- function reset
-- Empties everything but the settings of queues, while traffic runs: it waits until no writer is in the door, and takes
-- every table at once or none (readers hold locks on several tables, in no order), so it can't be part of a deadlock.
-- Sequences go on: an old id or lease is unknown afterwards and never means something else.
-- Locks: door, alone; every table; queues by name.
-- Errors: 55P03 when readers leave no gap for 10 seconds.
-- Callers: app/admin/store.py
CREATE OR REPLACE FUNCTION rvq.reset() RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_tables text;
BEGIN
    PERFORM pg_advisory_xact_lock(1, 0);
    SELECT string_agg(format('ONLY %s', c.oid::regclass), ', ') INTO v_tables
      FROM pg_class AS c
     WHERE c.relnamespace = 'rvq'::regnamespace AND c.relkind = 'r' AND pg_relation_size(c.oid) > 0
       AND c.relname NOT IN ('schema_migrations', 'schema_functions', 'queues', 'admission');
    FOR i IN 1 .. 1000 LOOP
        EXIT WHEN v_tables IS NULL;
        BEGIN
            EXECUTE 'LOCK TABLE ' || v_tables || ' IN ACCESS EXCLUSIVE MODE NOWAIT';
            EXECUTE 'TRUNCATE ' || v_tables;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF i = 1000 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(0.01);
        END;
    END LOOP;
    PERFORM 1 FROM rvq.queues AS q ORDER BY q.queue FOR UPDATE;
    UPDATE rvq.queues SET claim_floor = '-infinity' WHERE claim_floor > '-infinity';
END $$;
COMMENT ON FUNCTION rvq.reset() IS 'Empty RVQ: every task, sub_task, event, delivery and counter.';

-- function retry_delay
-- attempt^4 seconds, at most an hour, +-10 %: 1 s, 16 s, 81 s, 4 min, 10 min, ...
CREATE OR REPLACE FUNCTION rvq.retry_delay(p_attempt integer) RETURNS interval
LANGUAGE sql VOLATILE
AS $$ SELECT make_interval(secs => least(p_attempt::float8 ^ 4, 3600) * (0.9 + 0.2 * random())) $$;
COMMENT ON FUNCTION rvq.retry_delay(integer) IS 'How long a sub_task waits after its nth attempt failed, with jitter.';

-- function retry_reported
-- After the reports that end a sub_task were applied, a matching lease that is left is a failure to be tried again.
-- The token goes, so that this lease can't report twice.
-- Locks: none of its own, the sub_tasks are locked.
-- Callers: rvq.complete_sub_tasks
CREATE OR REPLACE FUNCTION rvq.retry_reported(
    p_worker_ids text[], p_ids bigint[], p_lease_tokens uuid[], p_errors text[], p_retry_after float8[], p_now timestamptz
) RETURNS text[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_outcomes text[] := array_fill(NULL::text, ARRAY[cardinality(p_ids)]);
    v_positions bigint[];
    v_position bigint;
BEGIN
    WITH report AS (
        SELECT * FROM unnest(p_worker_ids, p_ids, p_lease_tokens, p_errors, p_retry_after) WITH ORDINALITY
            AS r(worker_id, id, lease_token, error, retry_after, position)),
    held AS MATERIALIZED (
        SELECT DISTINCT ON (s.id) s.id, s.lease_token, s.queue, s.attempt, s.status AS was, r.position, r.worker_id, r.error,
               coalesce(make_interval(secs => r.retry_after), rvq.retry_delay(s.attempt)) AS delay
          FROM report AS r JOIN rvq.open_sub_tasks AS s ON s.id = r.id AND s.lease_token = r.lease_token
         ORDER BY s.id, r.position),
    retried AS (
        UPDATE rvq.open_sub_tasks AS s
           SET status = CASE WHEN h.delay > '0' THEN 'scheduled' ELSE 'queued' END::rvq.sub_task_status,
               due_at = CASE WHEN h.delay > '0' THEN p_now + h.delay END,
               again = true, lease_token = NULL, lease_expires_at = NULL
          FROM held AS h WHERE s.id = h.id
        RETURNING h.*, s.status),
    fact AS (
        INSERT INTO rvq.outcomes (id, lease_token, ended_at, attempt, status, worker_id, error)
        SELECT r.id, r.lease_token, p_now, r.attempt, 'retrying', r.worker_id, r.error FROM retried AS r),
    counted AS (
        INSERT INTO rvq.counter_deltas (queue, scheduled, queued, claimed)
        SELECT r.queue, count(*) FILTER (WHERE r.status = 'scheduled') - count(*) FILTER (WHERE r.was = 'scheduled'),
               count(*) FILTER (WHERE r.status = 'queued') - count(*) FILTER (WHERE r.was = 'queued'),
               -count(*) FILTER (WHERE r.was = 'claimed')
          FROM retried AS r GROUP BY r.queue)
    SELECT array_agg(r.position) INTO v_positions FROM retried AS r;
    FOREACH v_position IN ARRAY coalesce(v_positions, '{}') LOOP
        v_outcomes[v_position] := 'retrying';
    END LOOP;
    RETURN v_outcomes;
END $$;
COMMENT ON FUNCTION rvq.retry_reported(text[], bigint[], uuid[], text[], float8[], timestamptz) IS
    'Put sub_tasks whose attempt failed, with attempts left, back to wait for the next one.';

-- function retry_task
-- Reopens a failed task: what did not succeed (failed, or cancelled by the task's policy or deadline) is queued again,
-- with as many attempts as it had at first. It ends with another event.
-- Only the holder of its gate reopens a task, so once it is seen not to be open its last event stays the last.
-- Locks: door, the task's gate (whatever its policy); then inserts only.
-- Callers: app/admin/store.py
CREATE OR REPLACE FUNCTION rvq.retry_task(p_task_id bigint) RETURNS text
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_task rvq.tasks;
    v_event rvq.events;
BEGIN
    PERFORM rvq.enter();
    SELECT * INTO v_task FROM rvq.tasks AS t WHERE t.id = p_task_id;
    IF v_task.id IS NULL THEN
        RETURN 'unknown';
    END IF;
    PERFORM pg_advisory_xact_lock(2, rvq.gate_of(p_task_id));
    IF EXISTS (SELECT FROM rvq.open_tasks AS t WHERE t.id = p_task_id) THEN
        RETURN 'unfinished';
    END IF;
    SELECT * INTO v_event FROM rvq.events AS e WHERE e.id >= p_task_id AND e.id < p_task_id + 16384 ORDER BY e.id DESC LIMIT 1;
    IF v_event.status <> 'failed' THEN
        RETURN 'nothing_failed';
    END IF;
    INSERT INTO rvq.open_tasks (id, created_at, deadline_at, total, unfinished, succeeded, required, policy, run, queue,
                                webhook_url, webhook_host, metadata)
    VALUES (v_task.id, v_task.created_at, rvq.clock() + make_interval(secs => v_task.deadline_seconds), v_task.total,
           v_task.total - v_event.succeeded, v_event.succeeded, v_task.required, v_task.policy,
           v_event.id - v_task.id + 1, v_task.queue, v_task.webhook_url, v_task.webhook_host, v_task.metadata);
    INSERT INTO rvq.open_sub_tasks (id, queued_at, status, attempt, max_attempts, again, queue)
    SELECT s.id, s.queued_at, 'queued', l.attempt, least(l.attempt + s.max_attempts, 32767), true, v_task.queue
      FROM rvq.sub_tasks AS s
      CROSS JOIN LATERAL (SELECT o.status, o.attempt FROM rvq.outcomes AS o WHERE o.id = s.id AND o.status <> 'retrying'
                           ORDER BY o.attempt DESC, o.ended_at DESC LIMIT 1) AS l
     WHERE s.id > p_task_id AND s.id < p_task_id + 16384 AND l.status <> 'succeeded';
    INSERT INTO rvq.counter_deltas (queue, queued, failed, cancelled, tasks_open, tasks_started, tasks_failed)
    VALUES (v_task.queue, v_event.failed + v_event.cancelled, -v_event.failed, -v_event.cancelled, 1,
            (v_event.succeeded > 0)::integer, -1);
    RETURN 'retried';
END $$;
COMMENT ON FUNCTION rvq.retry_task(bigint) IS 'Run what failed of an ended task again: retried, unfinished, nothing_failed or unknown.';

-- function rfc3339
CREATE OR REPLACE FUNCTION rvq.rfc3339(p_time timestamptz) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT to_char(p_time AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;
COMMENT ON FUNCTION rvq.rfc3339(timestamptz) IS 'A time as it stands in JSON: RFC 3339, UTC, microseconds.';

-- function set_queue_paused
-- Callers: app/admin/store.py
CREATE OR REPLACE FUNCTION rvq.set_queue_paused(p_queue text, p_paused boolean) RETURNS void
LANGUAGE sql VOLATILE
AS $$
    INSERT INTO rvq.queues (queue, paused) VALUES (p_queue, p_paused) ON CONFLICT (queue) DO UPDATE SET paused = p_paused
$$;
COMMENT ON FUNCTION rvq.set_queue_paused(text, boolean) IS 'Pause a queue (claim skips it) or resume it.';

-- function settle_deliveries
-- Records attempts and what follows from each. p_verdicts: delivered, dead or retry (after p_delays seconds).
-- A lease that is lost changes nothing: whoever holds it now will settle it.
-- Locks: door, due_deliveries by id, webhook_hosts by host; then inserts.
-- Callers: dispatcher/store.py
CREATE OR REPLACE FUNCTION rvq.settle_deliveries(
    p_ids bigint[], p_lease_tokens uuid[], p_verdicts text[], p_delays float8[], p_seconds float8[], p_outcomes text[],
    p_status_codes integer[], p_details text[], p_answers bytea[]
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_settled bigint[];
    v_hosts text[];
    v_healthy boolean[];
    v_now timestamptz;
BEGIN
    PERFORM rvq.enter();
    PERFORM 1 FROM rvq.due_deliveries AS d WHERE d.id = ANY (p_ids) ORDER BY d.id FOR UPDATE;
    v_now := rvq.clock();
    WITH attempted AS (
        SELECT * FROM unnest(p_ids, p_lease_tokens, p_verdicts, p_delays, p_seconds, p_outcomes, p_status_codes, p_details, p_answers)
            AS a(id, lease_token, verdict, delay, seconds, outcome, status_code, detail, answer)),
    ended AS (
        DELETE FROM rvq.due_deliveries AS d USING attempted AS a
         WHERE d.id = a.id AND d.lease_token = a.lease_token AND a.verdict <> 'retry'
        RETURNING d.id, d.attempt, d.queue, d.host, a.verdict::rvq.delivery_status AS status, a.seconds, a.outcome, a.status_code, a.detail, a.answer),
    retried AS (
        UPDATE rvq.due_deliveries AS d
           SET due_at = v_now + make_interval(secs => a.delay), lease_token = NULL, lease_expires_at = NULL, claimed_at = NULL
          FROM attempted AS a WHERE d.id = a.id AND d.lease_token = a.lease_token AND a.verdict = 'retry'
        RETURNING d.id, d.attempt, d.queue, d.host, 'pending'::rvq.delivery_status AS status, a.seconds, a.outcome, a.status_code, a.detail, a.answer),
    settled AS (SELECT * FROM ended UNION ALL SELECT * FROM retried),
    ledger AS (
        INSERT INTO rvq.delivery_attempts (id, started_at, ended_at, attempt, status_code, status, queue, outcome, detail, answer)
        SELECT s.id, v_now - make_interval(secs => s.seconds), v_now, s.attempt, s.status_code, s.status, s.queue, s.outcome, s.detail, s.answer
          FROM settled AS s),
    counted AS (
        INSERT INTO rvq.counter_deltas (queue, deliveries_pending, deliveries_delivered, deliveries_dead)
        SELECT e.queue, -count(*), nullif(count(*) FILTER (WHERE e.status = 'delivered'), 0), nullif(count(*) FILTER (WHERE e.status = 'dead'), 0)
          FROM ended AS e GROUP BY e.queue)
    SELECT array_agg(s.id), array_agg(s.host), array_agg(s.outcome IN ('delivered', 'gone', 'http_error'))
      INTO v_settled, v_hosts, v_healthy FROM settled AS s;
    PERFORM rvq.note_host_health(v_hosts, v_healthy, v_now);
    RETURN coalesce(v_settled, '{}');
END $$;
COMMENT ON FUNCTION rvq.settle_deliveries(bigint[], uuid[], text[], float8[], float8[], text[], integer[], text[], bytea[]) IS
    'Record delivery attempts and what follows; returns the deliveries whose lease still held.';

-- function siblings_at_stake
-- The gates are held, so the counts read here can't change. It may name too many (a report may turn out stale), which
-- costs only locks, and never too few: every policy is monotone in successes and failures.
CREATE OR REPLACE FUNCTION rvq.siblings_at_stake(p_gated bigint[], p_ids bigint[], p_succeeded boolean[]) RETURNS bigint[]
LANGUAGE sql VOLATILE
AS $$
    SELECT coalesce(array_agg(s.id), '{}')
      FROM (SELECT rvq.task_of(r.id) AS task_id,
                   count(*) FILTER (WHERE r.succeeded)::integer AS succeeded,
                   count(*) FILTER (WHERE NOT r.succeeded)::integer AS failed
              FROM unnest(p_ids, p_succeeded) AS r(id, succeeded)
             WHERE rvq.task_of(r.id) = ANY (p_gated) GROUP BY 1) AS r
      JOIN rvq.open_tasks AS t ON t.id = r.task_id
      JOIN rvq.open_sub_tasks AS s ON s.id > t.id AND s.id < t.id + 16384
     WHERE rvq.verdict(t.policy, t.required, t.unfinished - r.succeeded - r.failed,
                       t.succeeded + r.succeeded, t.failed + r.failed) IS NOT NULL
$$;
COMMENT ON FUNCTION rvq.siblings_at_stake(bigint[], bigint[], boolean[]) IS
    'The open sub_tasks of the gated tasks that these reports may end.';

-- function stats
-- Costs the same with any history and any backlog: folded counters, pending deltas, the head of each claim index, and
-- the sub_tasks that are claimed or wait for another attempt (an open task is running when it has one of these).
-- Callers: app/partner/store.py, app/admin/store.py
CREATE OR REPLACE FUNCTION rvq.stats() RETURNS text
LANGUAGE sql STABLE
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
    WITH counter AS MATERIALIZED (SELECT * FROM rvq.current_counters),
    total AS (
        SELECT coalesce(sum(tasks_open), 0) AS open, coalesce(sum(tasks_started), 0) AS started,
               coalesce(sum(tasks_succeeded), 0) AS tasks_succeeded, coalesce(sum(tasks_failed), 0) AS tasks_failed,
               coalesce(sum(tasks_cancelled), 0) AS tasks_cancelled,
               coalesce(sum(scheduled), 0) AS scheduled, coalesce(sum(queued), 0) AS queued, coalesce(sum(claimed), 0) AS claimed,
               coalesce(sum(succeeded), 0) AS succeeded, coalesce(sum(failed), 0) AS failed, coalesce(sum(cancelled), 0) AS cancelled,
               coalesce(sum(deliveries_pending), 0) AS pending, coalesce(sum(deliveries_delivered), 0) AS delivered,
               coalesce(sum(deliveries_dead), 0) AS dead
          FROM counter),
    touched AS (
        SELECT count(*) AS tasks
          FROM rvq.tried_tasks() AS s(id)
          JOIN rvq.open_tasks AS t ON t.id = s.id AND t.unfinished = t.total)
    SELECT json_build_object(
        'tasks', json_build_object('queued', t.open - t.started - touched.tasks, 'running', t.started + touched.tasks,
                                   'succeeded', t.tasks_succeeded, 'failed', t.tasks_failed, 'cancelled', t.tasks_cancelled),
        'sub_tasks', json_build_object('scheduled', t.scheduled, 'queued', t.queued, 'claimed', t.claimed,
                                       'succeeded', t.succeeded, 'failed', t.failed, 'cancelled', t.cancelled),
        'queues', coalesce((SELECT json_object_agg(c.queue, json_build_object(
                                       'scheduled', c.scheduled, 'queued', c.queued, 'claimed', c.claimed, 'succeeded', c.succeeded,
                                       'failed', c.failed, 'cancelled', c.cancelled) ORDER BY c.queue)
                              FROM counter AS c), '{}'),
        'oldest_queued_seconds', (SELECT greatest(0, extract(epoch FROM rvq.clock() - min(rvq.oldest_queued_at(c.queue))))::float8
                                    FROM counter AS c WHERE c.queued > 0),
        'deliveries', json_build_object('pending', t.pending, 'delivered', t.delivered, 'dead', t.dead))::text
      FROM total AS t, touched
$$;
COMMENT ON FUNCTION rvq.stats() IS 'Tasks, sub_tasks, queues and deliveries counted by status, as the JSON that GET /v1/stats answers.';

-- function sweep_stranded_tasks
-- The safety net under fan-in: an open task without an open sub_task. It should never find one; what it finds is counted.
-- A sub_task that left no trace counts as one that failed. It walks the open tasks a batch at a time; p_after is where the last batch ended.
-- Locks: door, tasks by id.
-- Callers: dispatcher/store.py (maintenance)
CREATE OR REPLACE FUNCTION rvq.sweep_stranded_tasks(p_after bigint, p_limit integer) RETURNS TABLE (last_id bigint, stranded integer)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_stranded bigint[];
    v_id bigint;
BEGIN
    PERFORM rvq.enter();
    SELECT max(b.id), array_agg(b.id) FILTER (WHERE NOT EXISTS (
               SELECT FROM rvq.open_sub_tasks AS s WHERE s.id > b.id AND s.id < b.id + 16384))
      INTO last_id, v_stranded
      FROM (SELECT t.id FROM rvq.open_tasks AS t WHERE t.id > p_after ORDER BY t.id LIMIT p_limit) AS b;
    stranded := 0;
    FOREACH v_id IN ARRAY coalesce(v_stranded, '{}') LOOP
        PERFORM 1 FROM rvq.open_tasks AS t WHERE t.id = v_id FOR UPDATE;
        CONTINUE WHEN NOT FOUND OR EXISTS (SELECT FROM rvq.open_sub_tasks AS s WHERE s.id > v_id AND s.id < v_id + 16384);
        PERFORM rvq.advance_tasks(ARRAY[v_id], '{}', '{}', (SELECT rvq.verdict(t.policy, t.required, 0, t.succeeded, t.total - t.succeeded)
                                                        FROM rvq.open_tasks AS t WHERE t.id = v_id), rvq.clock());
        stranded := stranded + 1;
    END LOOP;
    RETURN NEXT;
END $$;
COMMENT ON FUNCTION rvq.sweep_stranded_tasks(bigint, integer) IS 'End open tasks that have no open sub_task: where it got to, how many it found.';

-- function take_due
-- Not in the lock order but in that of its index, and claim calls it while it holds sub_tasks: when it would have to wait
-- (see rvq.take_queued, it is rare), it takes none. Long before PostgreSQL looks for deadlocks (deadlock_timeout, 1 s).
-- Locks: sub_tasks with SKIP LOCKED, and for 10 ms at most.
-- Callers: rvq.promote_due
CREATE OR REPLACE FUNCTION rvq.take_due(p_limit integer) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET lock_timeout = '10ms'
AS $$
BEGIN
    RETURN ARRAY(SELECT s.id FROM rvq.open_sub_tasks AS s WHERE s.status = 'scheduled' AND s.due_at <= rvq.clock()
                  ORDER BY s.due_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
EXCEPTION WHEN lock_not_available THEN
    RETURN '{}';
END $$;
COMMENT ON FUNCTION rvq.take_due(integer) IS 'Lock scheduled sub_tasks that are due and that nobody holds; their ids.';

-- function take_lane
-- Locks queued sub_tasks of one lane of a queue: those queued again, or those queued for the first time, from the floor on.
-- Where p_again is NULL: those queued for the first time, unless some are queued again, which come first; and of these only
-- what nobody has touched of late.
-- SKIP LOCKED is not "never waits": a row that was changed while we looked at it, by a transaction that has just ended, is
-- followed to its newest version, and whoever holds that is waited for. One scan goes in the lock order, so this can't be
-- part of a deadlock as long as the caller holds no sub_task yet. But what is found at the end is claimed already: it would stay
-- locked for nothing, and whoever completes it would wait for our commit. So the quick way passes over what others touched: a
-- row's xmax is 0, or who locked or changed it last. One over a thousand transactions old is most likely a claim's that was rolled
-- back; if not, SKIP LOCKED finds out.
-- Locks: sub_tasks by (queued_at, id), with SKIP LOCKED.
-- Callers: rvq.take_queued, rvq.take_more_of_lane
CREATE OR REPLACE FUNCTION rvq.take_lane(p_queue text, p_again boolean, p_limit integer) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    IF p_again THEN
        RETURN ARRAY(
            SELECT s.id FROM rvq.open_sub_tasks AS s
             WHERE s.status = 'queued' AND s.again AND s.queue = p_queue
               AND NOT coalesce((SELECT q.paused FROM rvq.queues AS q WHERE q.queue = p_queue), false)
             ORDER BY s.queued_at, s.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    END IF;
    RETURN ARRAY(
        SELECT s.id FROM rvq.open_sub_tasks AS s
         WHERE s.status = 'queued' AND NOT s.again AND s.queue = p_queue
           AND s.queued_at >= coalesce((SELECT CASE WHEN q.paused THEN 'infinity' ELSE q.claim_floor END
                                          FROM rvq.queues AS q WHERE q.queue = p_queue), '-infinity')
           AND (p_again IS NOT NULL OR NOT EXISTS (
               SELECT FROM rvq.open_sub_tasks AS a WHERE a.status = 'queued' AND a.again AND a.queue = p_queue))
           AND (p_again IS NOT NULL OR age(s.xmax) > 1000)
         ORDER BY s.queued_at, s.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
END $$;
COMMENT ON FUNCTION rvq.take_lane(text, boolean, integer) IS 'Lock the oldest queued sub_tasks of one lane that nobody holds; their ids.';

-- function take_more_of_lane
-- For a caller that holds sub_tasks already, which may come later in the lock order: when it would have to wait (see
-- rvq.take_lane, it is rare), it takes none here. Long before PostgreSQL looks for deadlocks (deadlock_timeout, 1 s).
-- Locks: sub_tasks with SKIP LOCKED, and for 10 ms at most.
-- Callers: rvq.take_queued
CREATE OR REPLACE FUNCTION rvq.take_more_of_lane(p_queue text, p_again boolean, p_limit integer) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET lock_timeout = '10ms'
AS $$
BEGIN
    RETURN rvq.take_lane(p_queue, p_again, p_limit);
EXCEPTION WHEN lock_not_available THEN
    RETURN '{}';
END $$;
COMMENT ON FUNCTION rvq.take_more_of_lane(text, boolean, integer) IS 'As rvq.take_lane, without ever waiting for long.';

-- function take_queued
-- A queue's oldest first: those queued again, which are the older ones, then those queued for the first time. Mostly nothing
-- is queued again, and one statement finds that out and takes. When it finds nothing, what it passed over because somebody
-- had touched it is looked at too.
-- p_holds: the caller holds sub_tasks already, and must not wait.
-- Locks: sub_tasks with SKIP LOCKED, see rvq.take_lane and rvq.take_more_of_lane.
-- Callers: rvq.claim_sub_tasks
CREATE OR REPLACE FUNCTION rvq.take_queued(p_queue text, p_limit integer, p_holds boolean) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_taken bigint[] := '{}';
BEGIN
    IF NOT p_holds THEN
        v_taken := rvq.take_lane(p_queue, NULL, p_limit);
        IF cardinality(v_taken) > 0 THEN
            RETURN v_taken;
        END IF;
    END IF;
    IF EXISTS (SELECT FROM rvq.open_sub_tasks AS s WHERE s.status = 'queued' AND s.again AND s.queue = p_queue) THEN
        IF p_holds THEN
            v_taken := rvq.take_more_of_lane(p_queue, true, p_limit);
        ELSE
            v_taken := rvq.take_lane(p_queue, true, p_limit);
        END IF;
    END IF;
    IF cardinality(v_taken) < p_limit THEN
        v_taken := v_taken || rvq.take_more_of_lane(p_queue, false, p_limit - cardinality(v_taken));
    END IF;
    RETURN v_taken;
END $$;
COMMENT ON FUNCTION rvq.take_queued(text, integer, boolean) IS 'Lock the oldest queued sub_tasks of a queue that nobody holds; their ids.';

-- function task_of
CREATE OR REPLACE FUNCTION rvq.task_of(p_id bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_id & -16384 $$;
COMMENT ON FUNCTION rvq.task_of(bigint) IS 'The task of a sub_task, an event or a delivery: its id without the 14 low bits.';

-- function tried_tasks
-- Found from the side of the sub_tasks, of which few are held or wait for another attempt, however many are queued. Inlined
-- where it is called.
-- Callers: rvq.list_tasks, rvq.stats
CREATE OR REPLACE FUNCTION rvq.tried_tasks() RETURNS SETOF bigint
LANGUAGE sql STABLE
AS $$
    SELECT rvq.task_of(s.id) FROM rvq.open_sub_tasks AS s WHERE s.status = 'claimed'
    UNION
    SELECT rvq.task_of(s.id) FROM rvq.open_sub_tasks AS s WHERE s.attempt > 0 AND s.status <> 'claimed'
$$;
COMMENT ON FUNCTION rvq.tried_tasks() IS 'The open tasks with an unfinished sub_task that was claimed.';

-- function uncount_day
-- A task's last event tells how its sub_tasks ended, a delivery's last attempt how it ended: nothing of the day is open.
-- Few have a second one, so what is looked up for "no later one" is small (a task's events are numbered without gaps).
-- Locks: none.
-- Callers: rvq.drop_day_of_tasks
CREATE OR REPLACE FUNCTION rvq.uncount_day(p_day integer) RETURNS void
LANGUAGE plpgsql VOLATILE
SET work_mem = '128MB'
SET jit = off
AS $$
BEGIN
    EXECUTE format($sql$
        INSERT INTO rvq.counter_deltas (queue, succeeded, failed, cancelled, tasks_succeeded, tasks_failed, tasks_cancelled,
                                        deliveries_delivered, deliveries_dead)
        SELECT x.queue, -sum(x.succeeded), -sum(x.failed), -sum(x.cancelled), -count(*) FILTER (WHERE x.ended = 'succeeded'),
               -count(*) FILTER (WHERE x.ended = 'failed'), -count(*) FILTER (WHERE x.ended = 'cancelled'),
               -count(*) FILTER (WHERE x.delivery = 'delivered'), -count(*) FILTER (WHERE x.delivery = 'dead')
          FROM (SELECT e.queue, e.succeeded, e.failed, e.cancelled, e.status AS ended, NULL::rvq.delivery_status AS delivery
                  FROM rvq.events_%1$s AS e
                 WHERE NOT EXISTS (SELECT FROM rvq.events_%1$s AS l WHERE l.id = e.id + 1 AND l.id & 16383 > 0)
                UNION ALL
                SELECT a.queue, 0, 0, 0, NULL, a.status
                  FROM rvq.delivery_attempts_%1$s AS a
                 WHERE a.status <> 'pending'
                   AND NOT EXISTS (SELECT FROM rvq.delivery_attempts_%1$s AS l
                                    WHERE l.id = a.id AND l.attempt > a.attempt AND l.attempt > 1)) AS x
         GROUP BY x.queue
        $sql$, p_day);
END $$;
COMMENT ON FUNCTION rvq.uncount_day(integer) IS 'Take the ended tasks, sub_tasks and deliveries of that day out of the counters.';

-- function use_keys
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

-- function verdict
-- Inlined where it is called: nothing in it may be less than IMMUTABLE, such as a cast of a whole CASE to the enum.
CREATE OR REPLACE FUNCTION rvq.verdict(
    p_policy rvq.completion_policy, p_required integer, p_unfinished integer, p_succeeded integer, p_failed integer
) RETURNS rvq.task_status
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN p_policy = 'fail_fast' AND p_failed > 0 THEN 'failed'::rvq.task_status
        WHEN p_policy = 'at_least' AND p_succeeded >= p_required THEN 'succeeded'::rvq.task_status
        WHEN p_policy = 'at_least' AND p_succeeded + p_unfinished < p_required THEN 'failed'::rvq.task_status
        WHEN p_unfinished > 0 THEN NULL
        WHEN p_failed > 0 THEN 'failed'::rvq.task_status
        ELSE 'succeeded'::rvq.task_status
    END
$$;
COMMENT ON FUNCTION rvq.verdict(rvq.completion_policy, integer, integer, integer, integer) IS
    'How a task with these counts ends under its policy; NULL while it is open.';

-- function view_task
-- Unfinished sub_tasks are counted where they are, finished ones come from the open task or, when it ended, from its
-- last event: one snapshot, no write by claim.
CREATE OR REPLACE FUNCTION rvq.view_task(p_task rvq.tasks) RETURNS rvq.task_view
LANGUAGE sql STABLE
AS $$
    SELECT (p_task.id,
            CASE WHEN o.id IS NULL THEN e.status::text
                 WHEN o.unfinished < o.total OR n.tried THEN 'running' ELSE 'queued' END,
            p_task.queue, p_task.metadata, p_task.webhook_url, p_task.policy::text, p_task.required, p_task.deadline_seconds,
            p_task.created_at, CASE WHEN o.id IS NULL THEN e.occurred_at END, p_task.total,
            n.scheduled, n.queued, n.claimed,
            coalesce(o.succeeded, e.succeeded), coalesce(o.failed, e.failed), CASE WHEN o.id IS NULL THEN e.cancelled ELSE 0 END)::rvq.task_view
      FROM (SELECT count(*) FILTER (WHERE s.status = 'scheduled')::integer AS scheduled,
                   count(*) FILTER (WHERE s.status = 'queued')::integer AS queued,
                   count(*) FILTER (WHERE s.status = 'claimed')::integer AS claimed, coalesce(bool_or(s.attempt > 0), false) AS tried
              FROM rvq.open_sub_tasks AS s WHERE s.id > p_task.id AND s.id < p_task.id + 16384) AS n
      LEFT JOIN rvq.open_tasks AS o ON o.id = p_task.id
      LEFT JOIN LATERAL (SELECT * FROM rvq.events AS e WHERE e.id >= p_task.id AND e.id < p_task.id + 16384
                          ORDER BY e.id DESC LIMIT 1) AS e ON true
$$;
COMMENT ON FUNCTION rvq.view_task(rvq.tasks) IS 'Where a task stands.';

-- function write_readers
-- Writes the functions that read payloads and bodies by id, with one statement for each partition there is. A plan over the
-- parent would lock every partition at each call, and a statement put together for the day would be planned at each call.
-- The day of the first id says where to look; when something is not there, as where two days meet, all are looked at.
-- Locks: none of its own, the partitions' lock is held.
-- Callers: rvq.create_partitions
CREATE OR REPLACE FUNCTION rvq.write_readers() RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_text constant text := $f$
        CREATE OR REPLACE FUNCTION rvq.%1$I(p_ids bigint[]) RETURNS text[]
        LANGUAGE plpgsql STABLE
        AS $body$
        DECLARE
            v_found text[] := '{NULL}';
        BEGIN
            CASE rvq.day_of(p_ids[1])
                %2$s
                ELSE NULL;
            END CASE;
            IF array_position(v_found, NULL) IS NOT NULL THEN
                v_found := %3$s;
            END IF;
            RETURN v_found;
        END $body$;
        COMMENT ON FUNCTION rvq.%1$I(bigint[]) IS 'By id, in their order; NULL where there is none. Written by rvq.write_readers.'
    $f$;
    v_reader record;
    v_read text;
    v_branches text;
BEGIN
    FOR v_reader IN
        SELECT * FROM (VALUES ('payloads_of', 'sub_tasks', 'payload'), ('bodies_of', 'events', 'body')) AS r(name, facts, fact)
    LOOP
        v_read := format('ARRAY(SELECT (SELECT f.%I FROM rvq.%%I AS f WHERE f.id = i.id) FROM unnest(p_ids) AS i(id))', v_reader.fact);
        SELECT string_agg(format('WHEN %s THEN v_found := %s;', d.day, format(v_read, v_reader.facts || '_' || d.day)), E'\n                '
                          ORDER BY abs(d.day - rvq.day_at(rvq.clock())))
          INTO v_branches
          FROM rvq.list_partitions() AS d WHERE d.parent = v_reader.facts;
        EXECUTE format(v_text, v_reader.name, v_branches, format(v_read, v_reader.facts));
    END LOOP;
END $$;
COMMENT ON FUNCTION rvq.write_readers() IS 'Write rvq.payloads_of and rvq.bodies_of, which read facts by id, for the partitions there are.';
