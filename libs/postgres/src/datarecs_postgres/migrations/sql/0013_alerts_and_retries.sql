-- What endpoints remember of alerts and of the length of their queue, and which run a run retries.
-- Who may do what is 0013_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0013', '0.1.0');

ALTER TABLE datarecs.webhook_endpoint_state
    ADD COLUMN warned_at timestamptz,
    ADD COLUMN pending integer NOT NULL DEFAULT 0,
    ADD COLUMN overflow_since timestamptz,
    ADD COLUMN overflow_until timestamptz,
    ADD CONSTRAINT webhook_endpoint_state_overflow_check
        CHECK (overflow_until IS NULL OR overflow_since IS NOT NULL);

UPDATE datarecs.webhook_endpoint_state s SET pending = waiting.deliveries
    FROM (SELECT tenant_id, endpoint_uid, count(*) AS deliveries FROM datarecs.webhook_delivery
          WHERE state IN ('PENDING', 'LEASED') GROUP BY tenant_id, endpoint_uid) waiting
    WHERE waiting.tenant_id = s.tenant_id AND waiting.endpoint_uid = s.endpoint_uid;

ALTER TABLE datarecs.run ADD COLUMN retry_of uuid;
