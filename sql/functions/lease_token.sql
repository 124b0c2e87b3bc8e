-- Half random, so that nobody guesses it, and half the sub_task's id, so that one draw serves a whole claim: a token is
-- never used again, for this sub_task or any other.
CREATE OR REPLACE FUNCTION rvq.lease_token(p_random text, p_id bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (p_random || lpad(to_hex(p_id), 16, '0'))::uuid $$;
COMMENT ON FUNCTION rvq.lease_token(text, bigint) IS 'The lease token of a sub_task (or delivery) from the 16 random hex digits drawn for its claim.';
