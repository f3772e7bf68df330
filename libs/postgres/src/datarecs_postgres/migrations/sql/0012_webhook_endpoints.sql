-- The filter values of stored events, the consent of receivers, and the order of a run's events.
-- Privileges are in 0012_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0012', '0.1.0');

ALTER TABLE datarecs.webhook_message
    ADD COLUMN filter_values jsonb NOT NULL DEFAULT '{}'::jsonb;

ALTER TABLE datarecs.webhook_endpoint_state
    ADD COLUMN handshake jsonb;

ALTER TABLE datarecs.webhook_delivery
    ADD COLUMN sequence bigint,
    ADD COLUMN is_early boolean NOT NULL DEFAULT false,
    ADD COLUMN failing_since timestamptz;
CREATE INDEX webhook_delivery_order
    ON datarecs.webhook_delivery (tenant_id, endpoint_uid, run_id, sequence)
    WHERE sequence IS NOT NULL;
