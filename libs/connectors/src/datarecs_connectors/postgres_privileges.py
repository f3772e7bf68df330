"""What a source's role may do in addition to reading.

The database role limits a job's SQL, not the session: a role with write grants ends the read-only
mode with one statement. So profile `server` refuses such a role before any SQL of a job reaches the
server, and a probe lists the privileges (spec security 7, wall 1).
"""

from datarecs_connectors.errors import PermissionDeniedError
from datarecs_connectors.postgres_sessions import Session
from datarecs_core.egress.addresses import Profile

_SERVER_ROLES = (
    "pg_read_server_files",
    "pg_write_server_files",
    "pg_execute_server_program",
    "pg_signal_backend",
)
_ATTRIBUTES = """
SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication,
  array_to_string(ARRAY(SELECT name FROM unnest(%s::text[]) AS name
    WHERE pg_has_role(current_user, name, 'MEMBER') ORDER BY name), ' ')
FROM pg_roles WHERE rolname = current_user
"""
_WRITABLE = """
SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
  AND n.nspname NOT LIKE 'pg_toast%%' AND n.nspname NOT LIKE 'pg_temp%%'
  AND (pg_has_role(current_user, c.relowner, 'MEMBER')
       OR has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
       OR has_any_column_privilege(c.oid, 'INSERT, UPDATE'))
ORDER BY 1 LIMIT 1
"""


def excess_privileges(session: Session) -> tuple[str, ...]:
    """Texts for what the session's role may do in addition to reading; empty if it only reads.

    For a superuser this is the only text, because a superuser may do everything.
    """
    row = session.execute(_ATTRIBUTES, (list(_SERVER_ROLES),)).fetchone()
    if row is None:
        return ()
    is_superuser, creates_roles, creates_databases, replicates, server_roles = row
    if is_superuser:
        return ("is a superuser",)
    attributes = (
        (creates_roles, "may create roles"),
        (creates_databases, "may create databases"),
        (replicates, "may replicate"),
    )
    writable = session.execute(_WRITABLE).fetchone()
    return (
        *(words for has_it, words in attributes if has_it),
        *(f"is a member of {name}" for name in str(server_roles).split()),
        *((f"owns or may write {writable[0]}",) if writable else ()),
    )


def refuse_privileged_role(session: Session, *, source: str, profile: Profile, user: str) -> None:
    """Refuse a role that may do more than read; profile `local` lets it pass.

    Raises:
        PermissionDeniedError: in profile `server`, naming what the role may do.
    """
    if profile is Profile.LOCAL:
        return
    if excess := excess_privileges(session):
        raise PermissionDeniedError(
            source,
            f"role {user} {' and '.join(excess)}; use a role that has only SELECT, on the "
            "relations of the source",
        )
