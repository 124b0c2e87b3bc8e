-- The JSON is put together by hand: metadata goes in as the partner's own bytes.
CREATE OR REPLACE FUNCTION rvq.event_body(
    p_task_id bigint, p_status rvq.task_status, p_total integer, p_succeeded integer, p_failed integer,
    p_metadata text, p_created_at timestamptz, p_finished_at timestamptz
) RETURNS text
LANGUAGE sql STABLE
AS $$
    SELECT concat(
        '{"type":"task.', p_status, '","timestamp":"', rvq.rfc3339(p_finished_at),
        '","data":{"task_id":"', rvq.external_id('task', p_task_id), '","status":"', p_status,
        '","counts":{"total":', p_total, ',"scheduled":0,"queued":0,"claimed":0,"succeeded":', p_succeeded,
        ',"failed":', p_failed, ',"cancelled":', p_total - p_succeeded - p_failed, '},"metadata":', coalesce(p_metadata, 'null'),
        ',"created_at":"', rvq.rfc3339(p_created_at), '","finished_at":"', rvq.rfc3339(p_finished_at), '"}}')
$$;
COMMENT ON FUNCTION rvq.event_body(bigint, rvq.task_status, integer, integer, integer, text, timestamptz, timestamptz) IS
    'The body of a webhook, the very bytes that are signed and sent.';
