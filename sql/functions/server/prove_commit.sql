-- A commit that has to reach the disk and the synchronous standbys, and a small file, which a full disk refuses.
-- Neither leaves anything behind.
CREATE OR REPLACE FUNCTION rvq.prove_commit() RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    PERFORM pg_logical_emit_message(true, 'rvq', 'readyz'), pg_export_snapshot();
    RETURN true;
END $$;
COMMENT ON FUNCTION rvq.prove_commit() IS 'Commit something: returns when, and only if, commits go through.';
