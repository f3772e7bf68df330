-- Claims of all tenants alone.

DROP FUNCTION datarecs.claim_work;

-- Lease due items to an executor. Of each slice at most its share in a first round, then the rest.
-- Items that are parked on the way cost a visit each; a call makes at most 1,024 visits.
CREATE FUNCTION datarecs.claim_work(
    reader text, wanted text[], lasting interval[], lanes text[], classes text[], lease interval,
    n integer)
RETURNS TABLE (tenant_id uuid, id uuid, epoch bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at timestamptz := clock_timestamp();
    owners uuid[];
    kinds text[];
    pins text[];
    item record;
    last_due timestamptz;
    last_id uuid;
    share integer;
    taken integer := 0;
    served integer;
    seen integer;
    visits integer := 0;
BEGIN
    SELECT array_agg(s.tenant_id), array_agg(s.kind), array_agg(s.pin)
    INTO owners, kinds, pins FROM capture_slices(reader, wanted, at) s;
    FOR round IN 1..2 LOOP
        EXIT WHEN owners IS NULL;
        share := CASE round WHEN 1 THEN ceil(n::numeric / cardinality(owners)) ELSE n END;
        FOR i IN 1..cardinality(owners) LOOP
            served := 0;
            last_due := '-infinity';
            last_id := '00000000-0000-0000-0000-000000000000';
            LOOP
                EXIT WHEN taken >= n OR served >= share OR visits >= 1024;
                seen := 0;
                FOR item IN
                    SELECT c.id, c.claim_key, c.due_at FROM capture_candidates(
                        owners[i], kinds[i], pins[i], lanes, classes, at, last_due, last_id,
                        least(n - taken, share - served)) c
                LOOP
                    seen := seen + 1;
                    last_due := item.due_at;
                    last_id := item.id;
                    CONTINUE WHEN item.claim_key IS NOT NULL
                        AND NOT capture_take_key(owners[i], item.id, item.claim_key);
                    RETURN QUERY UPDATE capture_work w
                        SET state = 'RUNNING', epoch = w.epoch + 1, executor = reader,
                            lease_until = clock_timestamp() + lease,
                            deadline_at = clock_timestamp()
                                + lasting[array_position(wanted, w.kind)]
                        WHERE w.tenant_id = owners[i] AND w.id = item.id
                        RETURNING w.tenant_id, w.id, w.epoch;
                    served := served + 1;
                    taken := taken + 1;
                END LOOP;
                EXIT WHEN seen = 0;
                visits := visits + seen;
            END LOOP;
            IF served > 0 THEN
                PERFORM capture_note_turn(owners[i], kinds[i]);
            END IF;
        END LOOP;
    END LOOP;
END $$;

REVOKE ALL ON FUNCTION datarecs.claim_work(text, text[], interval[], text[], text[], interval, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION datarecs.claim_work(text, text[], interval[], text[], text[], interval, integer) TO datarecs_capture;
DELETE FROM datarecs.schema_compat WHERE revision = '0025';
