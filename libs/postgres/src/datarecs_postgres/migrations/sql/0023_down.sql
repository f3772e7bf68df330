-- Removes the queue of captures and the rights of capture-worker.

DROP FUNCTION datarecs.claim_work, datarecs.capture_tenants, datarecs.capture_note_turn,
    datarecs.capture_take_key, datarecs.capture_candidates, datarecs.capture_slices;
DROP TABLE datarecs.capture_claim, datarecs.capture_cancel, datarecs.capture_turn,
    datarecs.capture_work;
DROP SEQUENCE datarecs.capture_turns;
REVOKE ALL ON datarecs.schema_compat FROM datarecs_capture;
REVOKE ALL ON datarecs.service_role FROM datarecs_capture;
DROP POLICY tenant_capture ON datarecs.resource;
REVOKE ALL ON datarecs.resource FROM datarecs_capture;
DROP POLICY tenant_capture ON datarecs.sealed_secret;
REVOKE ALL ON datarecs.sealed_secret FROM datarecs_capture;
DROP POLICY tenant_capture ON datarecs.outbox;
DROP POLICY types_capture ON datarecs.outbox;
REVOKE ALL ON datarecs.outbox FROM datarecs_capture;
DROP POLICY tenant_capture ON datarecs.pointer;
REVOKE ALL ON datarecs.pointer FROM datarecs_capture;
REVOKE EXECUTE ON FUNCTION datarecs.outbox_shards() FROM datarecs_capture;
REVOKE EXECUTE ON FUNCTION datarecs.service_name() FROM datarecs_capture;
REVOKE USAGE ON SCHEMA datarecs FROM datarecs_capture;
CREATE POLICY tenant_worker_run ON datarecs.pointer TO datarecs_worker_run USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON datarecs.pointer TO datarecs_worker_run;
CREATE POLICY tenant_resources ON datarecs.pointer TO datarecs_resources USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON datarecs.pointer TO datarecs_resources;
DELETE FROM datarecs.service_role WHERE role = 'datarecs_capture';
DELETE FROM datarecs.schema_compat WHERE revision = '0023';
