-- Half of a token is random, so that nobody can guess it. The other half is the sub_task's id, so that one random
-- number serves a whole claim. No token is ever used twice, for this sub_task or any other.
CREATE OR REPLACE FUNCTION rvq.lease_token(p_random text, p_id bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (p_random || lpad(to_hex(p_id), 16, '0'))::uuid $$;
COMMENT ON FUNCTION rvq.lease_token(text, bigint) IS
    'Return the lease token of a sub_task or delivery, given the 16 random hex digits of its claim.';
