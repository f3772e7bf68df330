-- Takes the actions on webhook deliveries back; deliveries that actions made go with them.

CREATE OR REPLACE FUNCTION datarecs.due_tenants(what text)
RETURNS TABLE (tenant_id uuid, items bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
BEGIN
    IF what = 'run_leases' THEN
        RETURN QUERY SELECT l.tenant_id, count(*) FROM run_lease l
            WHERE l.lease_owner IS NOT NULL
              AND l.lease_until < clock_timestamp() - interval '5 seconds'
            GROUP BY l.tenant_id;
    ELSE
        RAISE EXCEPTION 'nothing is due under the name %', what
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

DELETE FROM datarecs.webhook_delivery WHERE origin <> 'event';
DROP INDEX datarecs.webhook_delivery_next;
ALTER TABLE datarecs.webhook_delivery
    DROP CONSTRAINT webhook_delivery_once_per_action,
    ADD CONSTRAINT webhook_delivery_once_per_event
        UNIQUE (tenant_id, received_on, endpoint_uid, event_id),
    DROP COLUMN action_id,
    DROP COLUMN priority,
    DROP COLUMN origin,
    DROP COLUMN event_on;
REVOKE INSERT, UPDATE ON datarecs.webhook_endpoint_state FROM datarecs_api;
UPDATE datarecs.webhook_endpoint_state
    SET disabled_by = NULL, disabled_at = NULL, disabled_generation = NULL
    WHERE disabled_by IN ('user', 'auto');
ALTER TABLE datarecs.webhook_endpoint_state
    DROP CONSTRAINT webhook_endpoint_state_disabled_by_check,
    ADD CONSTRAINT webhook_endpoint_state_disabled_by_check
        CHECK (disabled_by IN ('gone', 'receiver')),
    DROP COLUMN window_failures,
    DROP COLUMN window_attempts,
    DROP COLUMN window_started_at,
    DROP COLUMN circuit_open_until,
    DROP COLUMN circuit_openings;
DROP POLICY tenant_api ON datarecs.webhook_message;
REVOKE SELECT (tenant_id, received_on, message_id, attributes, created_at)
    ON datarecs.webhook_message FROM datarecs_api;
DROP TABLE datarecs.webhook_action;
DELETE FROM datarecs.schema_compat WHERE revision = '0010';
