CREATE OR REPLACE FUNCTION rvq.read_event(p_event_id bigint) RETURNS text
LANGUAGE sql STABLE
AS $$ SELECT e.body FROM rvq.events AS e WHERE e.id = p_event_id $$;
COMMENT ON FUNCTION rvq.read_event(bigint) IS
    'Return the body of an event, as it is signed and sent; NULL when it is unknown.';
