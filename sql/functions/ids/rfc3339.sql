CREATE OR REPLACE FUNCTION rvq.rfc3339(p_time timestamptz) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT to_char(p_time AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;
COMMENT ON FUNCTION rvq.rfc3339(timestamptz) IS 'Return a time as it stands in JSON: RFC 3339, UTC, microseconds.';
