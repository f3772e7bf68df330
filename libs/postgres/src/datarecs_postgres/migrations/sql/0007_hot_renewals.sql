-- A renewal touches its row alone: no index follows the end of a lease.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0007', '0.1.0');

-- Leases that ran out are looked for among those that are held, which are few.
DROP INDEX datarecs.run_lease_held;
