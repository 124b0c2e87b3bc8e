-- Partitions are known by their names, `table_day`: one that somebody else made and named is none of ours.
CREATE OR REPLACE FUNCTION rvq.list_partitions() RETURNS TABLE (parent text, day integer)
LANGUAGE sql STABLE
AS $$
    SELECT k.relname::text, substr(c.relname, length(k.relname) + 2)::integer
      FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid JOIN pg_class AS k ON k.oid = i.inhparent
     WHERE k.relnamespace = 'rvq'::regnamespace AND k.relkind = 'p' AND c.relname ~ ('^' || k.relname || '_[0-9]+$')
$$;
COMMENT ON FUNCTION rvq.list_partitions() IS
    'Return the partitions that rvq.create_partitions made and that are still there.';
