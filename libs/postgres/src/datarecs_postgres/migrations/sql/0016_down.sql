-- Removes the work of controllers, and what resource-controller may write of objects.

DROP FUNCTION datarecs.resource_backlog, datarecs.claim_resources, datarecs.adopt_resources;
DROP TABLE datarecs.resource_work;
REVOKE UPDATE ON datarecs.resource FROM datarecs_resources;
DROP POLICY tenant_resources ON datarecs.resource_change;
REVOKE INSERT ON datarecs.resource_change FROM datarecs_resources;
DROP POLICY types_resources ON datarecs.outbox;
CREATE POLICY types_resources ON datarecs.outbox AS RESTRICTIVE FOR INSERT TO datarecs_resources WITH CHECK (type = ANY ('{io.datarecs.reconciliation.run.cancel_requested,io.datarecs.reconciliation.run.triggered}'::text[]));
DELETE FROM datarecs.schema_compat WHERE revision = '0016';
