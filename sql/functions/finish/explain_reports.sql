-- It is called only for reports that changed nothing, which are rare, so it may read facts through their parent tables.
CREATE OR REPLACE FUNCTION rvq.explain_reports(p_outcomes text[], p_ids bigint[], p_lease_tokens uuid[]) RETURNS text[]
LANGUAGE sql VOLATILE
AS $$
    SELECT array_agg(coalesce(r.outcome,
                              (SELECT 'duplicate' FROM rvq.outcomes AS o
                                WHERE o.id = r.id AND o.lease_token = r.lease_token LIMIT 1),
                              (SELECT 'stale' FROM rvq.sub_tasks AS s WHERE s.id = r.id),
                              'unknown') ORDER BY r.position)
      FROM unnest(p_outcomes, p_ids, p_lease_tokens) WITH ORDINALITY AS r(outcome, id, lease_token, position)
$$;
COMMENT ON FUNCTION rvq.explain_reports(text[], bigint[], uuid[]) IS
    'Return the outcomes with those that are NULL filled in: why a report was not stored, duplicate, stale or unknown.';
