-- A dispatcher calls check_admission once a second, which records when: that is the sign of its maintenance. Where none
-- has ever run, the time since the schema was installed counts.
CREATE OR REPLACE FUNCTION rvq.maintenance_seconds() RETURNS float8
LANGUAGE sql STABLE
AS $$
    SELECT greatest(0, extract(epoch FROM rvq.clock() - coalesce(
               (SELECT a.checked_at FROM rvq.admission AS a WHERE a.checked_at > '-infinity'),
               (SELECT min(m.applied_at) FROM rvq.schema_migrations AS m))))::float8
$$;
COMMENT ON FUNCTION rvq.maintenance_seconds() IS
    'Return how many seconds ago a dispatcher last did its maintenance.';
