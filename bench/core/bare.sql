-- A bare queue: two tables whose rows are updated in place, one index in the claim's order, a token, fan-in by a conditional
-- update, an outbox row. No facts apart from open work, no partitions, counters, policies, retries, queues, deliveries,
-- gates or floors; nothing looks at what it is given. It tells how much of a life's cost is paid for those.
DROP SCHEMA IF EXISTS bare CASCADE;
CREATE SCHEMA bare;
CREATE TABLE bare.tasks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, created_at timestamptz NOT NULL, finished_at timestamptz,
    total integer NOT NULL, unfinished integer NOT NULL, succeeded integer NOT NULL DEFAULT 0, status text NOT NULL DEFAULT 'queued',
    webhook_url text, metadata text
) WITH (fillfactor = 80);
CREATE TABLE bare.sub_tasks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, task_id bigint NOT NULL, queued_at timestamptz NOT NULL,
    lease_expires_at timestamptz, lease_token uuid, attempt integer NOT NULL DEFAULT 0, status text NOT NULL DEFAULT 'queued',
    worker_id text, payload text NOT NULL, result text
) WITH (fillfactor = 80);
CREATE INDEX ON bare.sub_tasks (queued_at, id) WHERE status = 'queued';
CREATE TABLE bare.events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, task_id bigint NOT NULL, occurred_at timestamptz NOT NULL, url text, body text NOT NULL);

CREATE FUNCTION bare.create_task(p_payloads text[], p_url text, p_metadata text) RETURNS bigint
LANGUAGE plpgsql
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_id bigint;
BEGIN
    INSERT INTO bare.tasks (created_at, total, unfinished, webhook_url, metadata)
    VALUES (clock_timestamp(), cardinality(p_payloads), cardinality(p_payloads), p_url, p_metadata) RETURNING id INTO v_id;
    INSERT INTO bare.sub_tasks (task_id, queued_at, payload) SELECT v_id, clock_timestamp(), p FROM unnest(p_payloads) AS p;
    RETURN v_id;
END $$;

CREATE FUNCTION bare.claim(p_worker_id text, p_limit integer) RETURNS TABLE (id bigint, payload text, lease_token uuid)
LANGUAGE plpgsql
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    RETURN QUERY
    WITH taken AS MATERIALIZED (
        SELECT s.id FROM bare.sub_tasks AS s WHERE s.status = 'queued' ORDER BY s.queued_at, s.id LIMIT p_limit FOR UPDATE SKIP LOCKED)
    UPDATE bare.sub_tasks AS s
       SET status = 'claimed', attempt = s.attempt + 1, worker_id = p_worker_id, lease_token = gen_random_uuid(),
           lease_expires_at = clock_timestamp() + interval '60 s'
      FROM taken AS t WHERE s.id = t.id
    RETURNING s.id, s.payload, s.lease_token;
END $$;

CREATE FUNCTION bare.complete(p_ids bigint[], p_lease_tokens uuid[], p_result text) RETURNS bigint
LANGUAGE plpgsql
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_stored bigint;
BEGIN
    WITH held AS MATERIALIZED (
        SELECT s.id FROM bare.sub_tasks AS s JOIN unnest(p_ids, p_lease_tokens) AS r(id, lease_token) ON s.id = r.id AND s.lease_token = r.lease_token
         ORDER BY s.queued_at, s.id FOR UPDATE OF s),
    ended AS (
        UPDATE bare.sub_tasks AS s SET status = 'succeeded', result = p_result FROM held AS h WHERE s.id = h.id RETURNING s.task_id),
    step AS (SELECT e.task_id, count(*)::integer AS ended FROM ended AS e GROUP BY e.task_id ORDER BY e.task_id),
    task AS (
        UPDATE bare.tasks AS t
           SET unfinished = t.unfinished - s.ended, succeeded = t.succeeded + s.ended, finished_at = clock_timestamp(),
               status = CASE WHEN t.unfinished = s.ended THEN 'succeeded' ELSE 'running' END
          FROM step AS s WHERE t.id = s.task_id
        RETURNING t.*),
    event AS (
        INSERT INTO bare.events (task_id, occurred_at, url, body)
        SELECT t.id, t.finished_at, t.webhook_url,
               format('{"type":"task.%s","timestamp":"%s","data":{"task_id":%s,"succeeded":%s,"metadata":%s}}',
                      t.status, t.finished_at, t.id, t.succeeded, t.metadata)
          FROM task AS t WHERE t.unfinished = 0)
    SELECT count(*) INTO v_stored FROM ended;
    RETURN v_stored;
END $$;
