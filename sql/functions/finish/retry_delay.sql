-- attempt^4 seconds, at most an hour, +-10 %: 1 s, 16 s, 81 s, 4 min, 10 min, ...
CREATE OR REPLACE FUNCTION rvq.retry_delay(p_attempt integer) RETURNS interval
LANGUAGE sql VOLATILE
AS $$ SELECT make_interval(secs => least(p_attempt::float8 ^ 4, 3600) * (0.9 + 0.2 * random())) $$;
COMMENT ON FUNCTION rvq.retry_delay(integer) IS
    'Return how long a sub_task waits after its nth attempt failed, with jitter.';
