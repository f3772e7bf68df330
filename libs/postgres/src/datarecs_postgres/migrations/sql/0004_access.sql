-- Who may do what with socket tickets; printed by `python -m datarecs_postgres.rls`, frozen here.
ALTER TABLE datarecs.ws_ticket ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY owner ON datarecs.ws_ticket TO datarecs_owner USING (true) WITH CHECK (true);
CREATE POLICY tenant_api ON datarecs.ws_ticket TO datarecs_api USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
GRANT SELECT ON datarecs.ws_ticket TO datarecs_api;
GRANT INSERT ON datarecs.ws_ticket TO datarecs_api;
GRANT DELETE ON datarecs.ws_ticket TO datarecs_api;
REVOKE ALL ON FUNCTION datarecs.resolve_session(bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION datarecs.resolve_session(bytea) TO datarecs_api;
