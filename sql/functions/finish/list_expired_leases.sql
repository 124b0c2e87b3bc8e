-- The task of an expired lease may end by its policy, and then its siblings are cancelled: up to 10 000. Those that fit
-- into a batch are the first ones, and as many more as have p_sub_tasks siblings together. It is inlined where it is
-- called.
CREATE OR REPLACE FUNCTION rvq.list_expired_leases(p_limit integer, p_sub_tasks integer, p_now timestamptz)
RETURNS TABLE (id bigint, lease_token uuid, fits boolean)
LANGUAGE sql STABLE
AS $$
    SELECT c.id, c.lease_token,
           sum(c.siblings) OVER w - first_value(c.siblings) OVER w <= p_sub_tasks
      FROM (SELECT e.*, CASE WHEN rvq.is_gated(e.id)
                                  AND 1 = row_number() OVER (PARTITION BY rvq.task_of(e.id) ORDER BY e.position)
                             THEN coalesce((SELECT t.unfinished FROM rvq.open_tasks AS t
                                             WHERE t.id = rvq.task_of(e.id)), 0) ELSE 0 END AS siblings
              FROM (SELECT s.id, s.lease_token, row_number() OVER (ORDER BY s.lease_expires_at) AS position
                      FROM rvq.open_sub_tasks AS s
                     WHERE s.status = 'claimed' AND s.lease_expires_at <= p_now
                     ORDER BY s.lease_expires_at LIMIT p_limit) AS e) AS c
    WINDOW w AS (ORDER BY c.position ROWS UNBOUNDED PRECEDING)
$$;
COMMENT ON FUNCTION rvq.list_expired_leases(integer, integer, timestamptz) IS
    'Return the leases that ran out, oldest first, and whether each fits into a batch.';
