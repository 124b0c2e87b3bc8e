-- This is a loose index scan: one index probe a host, however many deliveries wait.
CREATE OR REPLACE FUNCTION rvq.list_due_hosts() RETURNS TABLE (host text, oldest_due_at timestamptz)
LANGUAGE sql STABLE
AS $$
    WITH RECURSIVE walk AS (
        (SELECT d.host, d.due_at FROM rvq.due_deliveries AS d WHERE d.lease_token IS NULL
          ORDER BY d.host, d.due_at LIMIT 1)
        UNION ALL
        SELECT n.host, n.due_at FROM walk AS w CROSS JOIN LATERAL (
            SELECT d.host, d.due_at FROM rvq.due_deliveries AS d WHERE d.lease_token IS NULL AND d.host > w.host
             ORDER BY d.host, d.due_at LIMIT 1) AS n)
    SELECT w.host, w.due_at FROM walk AS w
$$;
COMMENT ON FUNCTION rvq.list_due_hosts() IS
    'Return the hosts with deliveries that nobody is sending, and when the oldest of each is due.';
