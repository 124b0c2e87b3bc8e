-- The JSON is put together by hand, because metadata goes in as the partner's own bytes.
CREATE OR REPLACE FUNCTION rvq.event_body(
    p_task_id bigint, p_status rvq.task_status, p_total integer, p_succeeded integer, p_failed integer,
    p_metadata text, p_created_at timestamptz, p_finished_at timestamptz
) RETURNS text
LANGUAGE sql STABLE
AS $$
    SELECT format(
        '{"type":"task.%s","timestamp":"%s","data":{"task_id":"%s","status":"%s","counts":{"total":%s,'
        '"scheduled":0,"queued":0,"claimed":0,"succeeded":%s,"failed":%s,"cancelled":%s},'
        '"metadata":%s,"created_at":"%s","finished_at":"%s"}}',
        p_status::text, rvq.rfc3339(p_finished_at), rvq.external_id('task', p_task_id), p_status::text, p_total,
        p_succeeded, p_failed, p_total - p_succeeded - p_failed,
        coalesce(p_metadata, 'null'), rvq.rfc3339(p_created_at), rvq.rfc3339(p_finished_at))
$$;
COMMENT ON FUNCTION
    rvq.event_body(bigint, rvq.task_status, integer, integer, integer, text, timestamptz, timestamptz) IS
    'Return the body of a webhook, the very bytes that are signed and sent.';
