-- Before any migration: the schema, and functions that nobody may call unless told so.
CREATE SCHEMA IF NOT EXISTS datarecs AUTHORIZATION datarecs_owner;
ALTER DEFAULT PRIVILEGES FOR ROLE datarecs_owner REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
