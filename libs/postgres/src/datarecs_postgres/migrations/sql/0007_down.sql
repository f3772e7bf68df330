-- Lets an index follow the end of a lease again.

CREATE INDEX run_lease_held ON datarecs.run_lease (lease_until) WHERE lease_owner IS NOT NULL;
DELETE FROM datarecs.schema_compat WHERE revision = '0007';
