-- Of a day, its tasks come first while they are there, and nothing else of it: they say whether it may go.
CREATE OR REPLACE FUNCTION rvq.list_expired_partitions(p_days integer) RETURNS TABLE (parent text, day integer)
LANGUAGE sql VOLATILE
AS $$
    SELECT DISTINCT ON (p.day) p.parent, p.day
      FROM rvq.list_partitions() AS p
     WHERE p.day < rvq.day_at(rvq.clock()) - p_days
     ORDER BY p.day, p.parent <> 'tasks', p.parent
$$;
COMMENT ON FUNCTION rvq.list_expired_partitions(integer) IS
    'Return the next partition to drop of each day that ended more than p_days ago, oldest first.';
