-- What filters read of stored events, and the consent of receivers. Who may do what is 0012_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0012', '0.1.0');

ALTER TABLE datarecs.webhook_message
    ADD COLUMN filter_values jsonb NOT NULL DEFAULT '{}'::jsonb;

ALTER TABLE datarecs.webhook_endpoint_state
    ADD COLUMN handshake jsonb;
