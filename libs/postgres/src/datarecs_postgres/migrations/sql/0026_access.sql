-- Rights of runs on pointers; printed by `python -m datarecs_postgres.rls pointer`, frozen here.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0026', '0.1.0');

CREATE POLICY tenant_worker_run ON datarecs.pointer TO datarecs_worker_run USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
CREATE POLICY pins_added ON datarecs.pointer AS RESTRICTIVE FOR INSERT TO datarecs_worker_run WITH CHECK (key ~ '^/accounts/[^/]+/tables/[^/]+/(pins/[^/]+|root/current)$'::text);
CREATE POLICY pins_moved ON datarecs.pointer AS RESTRICTIVE FOR UPDATE TO datarecs_worker_run USING (key ~ '^/accounts/[^/]+/tables/[^/]+/(pins/[^/]+|root/current)$'::text) WITH CHECK (key ~ '^/accounts/[^/]+/tables/[^/]+/(pins/[^/]+|root/current)$'::text);
GRANT SELECT, INSERT, UPDATE ON datarecs.pointer TO datarecs_worker_run;
