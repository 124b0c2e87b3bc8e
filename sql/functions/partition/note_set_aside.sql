-- Locks: set_aside by id.
CREATE OR REPLACE FUNCTION rvq.note_set_aside(p_kind text, p_ids bigint[], p_reason text, p_now timestamptz)
RETURNS void
LANGUAGE sql VOLATILE
AS $$
    INSERT INTO rvq.set_aside AS s (kind, id, reason, set_aside_at)
    SELECT p_kind, i, p_reason, p_now FROM unnest(p_ids) AS i ORDER BY i
    ON CONFLICT (kind, id) DO UPDATE SET reason = excluded.reason, set_aside_at = excluded.set_aside_at
$$;
COMMENT ON FUNCTION rvq.note_set_aside(text, bigint[], text, timestamptz) IS
    'Write down what was found damaged, and why, for rvq doctor and the metrics.';
