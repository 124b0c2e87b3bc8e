-- Writes the functions that read payloads and bodies by id, with one statement for each partition there is. A plan over
-- the parent would lock every partition at each call, and a statement put together for the day would be planned at each
-- call. The day of the first id says where to look; when something is not there, as where two days meet, all are looked
-- at.
-- Locks: none of its own, the partitions' lock is held.
CREATE OR REPLACE FUNCTION rvq.write_readers() RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_text constant text := $f$
        CREATE OR REPLACE FUNCTION rvq.%1$I(p_ids bigint[]) RETURNS text[]
        LANGUAGE plpgsql STABLE
        AS $body$
        DECLARE
            v_found text[] := '{NULL}';
        BEGIN
            CASE rvq.day_of(p_ids[1])
                %2$s
                ELSE NULL;
            END CASE;
            IF array_position(v_found, NULL) IS NOT NULL THEN
                v_found := %3$s;
            END IF;
            RETURN v_found;
        END $body$;
        COMMENT ON FUNCTION rvq.%1$I(bigint[]) IS
            'Return facts by id, in the order of the ids; NULL where there is none. Written by rvq.write_readers.'
    $f$;
    v_reader record;
    v_read text;
    v_branches text;
BEGIN
    FOR v_reader IN
        SELECT * FROM (VALUES ('payloads_of', 'sub_tasks', 'payload'), ('bodies_of', 'events', 'body'))
            AS r(name, facts, fact)
    LOOP
        v_read := format('ARRAY(SELECT (SELECT f.%I FROM rvq.%%I AS f WHERE f.id = i.id)'
                         ' FROM unnest(p_ids) AS i(id))', v_reader.fact);
        SELECT string_agg(format('WHEN %s THEN v_found := %s;', d.day, format(v_read, v_reader.facts || '_' || d.day)),
                          E'\n                ' ORDER BY abs(d.day - rvq.day_at(rvq.clock())))
          INTO v_branches
          FROM rvq.list_partitions() AS d WHERE d.parent = v_reader.facts;
        EXECUTE format(v_text, v_reader.name, v_branches, format(v_read, v_reader.facts));
    END LOOP;
END $$;
COMMENT ON FUNCTION rvq.write_readers() IS
    'Write rvq.payloads_of and rvq.bodies_of, which read facts by id, for the partitions there are.';
