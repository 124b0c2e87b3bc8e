CREATE OR REPLACE FUNCTION rvq.random_hex() RETURNS text
LANGUAGE sql VOLATILE
AS $$ SELECT right(replace(gen_random_uuid()::text, '-', ''), 16) $$;
COMMENT ON FUNCTION rvq.random_hex() IS
    'Return 16 hex digits, 62 bits of them from the server''s strong random source.';
