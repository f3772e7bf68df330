-- Takes bounces and the end of suppressions back; suppressions with an end go at once.

DROP TABLE datarecs.email_bounce;
DELETE FROM datarecs.email_suppression WHERE ends_at IS NOT NULL;
REVOKE INSERT, UPDATE ON datarecs.email_suppression FROM datarecs_api;
REVOKE UPDATE ON datarecs.email_suppression FROM datarecs_mail;
REVOKE UPDATE (reason, reply, created_at, ends_at) ON datarecs.email_suppression FROM datarecs_mail, datarecs_api;
ALTER TABLE datarecs.email_suppression DROP COLUMN ends_at;
DELETE FROM datarecs.schema_compat WHERE revision = '0014';
