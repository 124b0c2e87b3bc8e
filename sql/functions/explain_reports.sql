-- Only for reports that changed nothing, which are rare: it may read facts through their parent tables.
-- Callers: rvq.complete_sub_tasks
CREATE OR REPLACE FUNCTION rvq.explain_reports(p_outcomes text[], p_ids bigint[], p_lease_tokens uuid[]) RETURNS text[]
LANGUAGE sql VOLATILE
AS $$
    SELECT array_agg(coalesce(r.outcome, CASE
               WHEN EXISTS (SELECT FROM rvq.outcomes AS o WHERE o.id = r.id AND o.lease_token = r.lease_token) THEN 'duplicate'
               WHEN EXISTS (SELECT FROM rvq.sub_tasks AS s WHERE s.id = r.id) THEN 'stale'
               ELSE 'unknown' END) ORDER BY r.position)
      FROM unnest(p_outcomes, p_ids, p_lease_tokens) WITH ORDINALITY AS r(outcome, id, lease_token, position)
$$;
COMMENT ON FUNCTION rvq.explain_reports(text[], bigint[], uuid[]) IS 'Why a report was not stored: duplicate, stale or unknown.';
