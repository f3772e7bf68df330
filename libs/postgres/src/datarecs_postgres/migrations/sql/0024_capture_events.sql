-- Numbers of the events of captures. Who may do what is 0024_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0024', '0.1.0');

CREATE TABLE datarecs.capture_sequence (
    tenant_id uuid NOT NULL,
    root_job_id uuid NOT NULL,
    last_sequence bigint NOT NULL,
    PRIMARY KEY (tenant_id, root_job_id),
    FOREIGN KEY (tenant_id, root_job_id) REFERENCES datarecs.capture_work (tenant_id, id) ON DELETE CASCADE
) WITH (fillfactor = 50);
