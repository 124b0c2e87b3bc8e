-- It goes by the tenth of a second in which the server's run began, and counts on from the last one that is stored. It
-- takes at most a quarter of those that are left.
-- Only after rvq.hold_door, which sees to it that the session knows the run.
CREATE OR REPLACE FUNCTION rvq.fresh_ordinal(p_run integer) RETURNS integer
LANGUAGE sql STABLE
AS $$
    SELECT least(16383, p_run + 8 + floor(current_setting('rvq.run_began')::numeric * 10)::bigint
                                    % greatest(1, (16376 - p_run) / 4))::integer
$$;
COMMENT ON FUNCTION rvq.fresh_ordinal(integer) IS
    'Return an ordinal for a task''s event, above this one, that no event of a lost part of the history had.';
