-- name: tables
-- Tables of the schema with their row security; partitions are reached through their parent alone.
SELECT c.relname AS name, c.relrowsecurity AS enabled, c.relforcerowsecurity AS forced
FROM pg_class c
WHERE c.relnamespace = 'datarecs'::regnamespace AND c.relkind IN ('r', 'p')
  AND NOT c.relispartition

-- name: policies
-- Every row policy as the server shows it.
SELECT p.tablename, p.policyname, array_to_string(p.roles, ',') AS role, p.cmd,
       p.permissive = 'RESTRICTIVE' AS restrictive, p.qual, p.with_check
FROM pg_policies p WHERE p.schemaname = 'datarecs'

-- name: grants
-- Privileges on whole tables and on columns, the owner's own left out.
SELECT c.relname, coalesce(r.rolname, 'PUBLIC') AS role, a.privilege_type, '' AS column
FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE c.relnamespace = 'datarecs'::regnamespace AND c.relkind IN ('r', 'p')
  AND a.grantee <> c.relowner
UNION ALL
SELECT c.relname, coalesce(r.rolname, 'PUBLIC'), a.privilege_type, t.attname
FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid
CROSS JOIN LATERAL aclexplode(t.attacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE c.relnamespace = 'datarecs'::regnamespace AND c.relkind IN ('r', 'p')
  AND a.grantee <> c.relowner

-- name: unique_indexes
-- Unique indexes of tenants' tables that do not start with the tenant, primary keys included.
SELECT c.relname AS table_name, i.indexrelid::regclass::text AS index_name
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
JOIN pg_attribute t ON t.attrelid = c.oid AND t.attname = 'tenant_id'
WHERE c.relnamespace = 'datarecs'::regnamespace AND i.indisunique AND NOT c.relispartition
  AND NOT t.attnum = ANY (i.indkey)

-- name: functions
-- Functions of the schema: whether they act as their owner, with which path, and who may call them.
SELECT p.proname AS name, p.prosecdef AS definer,
       coalesce('search_path=datarecs, pg_temp' = ANY (p.proconfig), false) AS pinned,
       coalesce(array_agg(coalesce(r.rolname, 'PUBLIC')::text)
                FILTER (WHERE a.grantee <> p.proowner), '{}') AS callers
FROM pg_proc p
CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE p.pronamespace = 'datarecs'::regnamespace
GROUP BY p.oid, p.proname, p.prosecdef, p.proconfig
