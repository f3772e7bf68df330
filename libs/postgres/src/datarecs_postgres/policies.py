"""Declare rights and convert them to statements: grants, policies, functions.

Separate from `rls`, which contains the rights, so that migrations of other concepts declare their
tables in the same way.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from datarecs_postgres.roles import OWNER, short_name
from datarecs_postgres.tables.metadata import SCHEMA

TENANT_RULE = "tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid"
"""Both NULL (never set) and '' (a transaction that set it has ended) match no row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A privilege of one role on a table, or on some of its columns."""

    role: str
    privilege: str
    """SELECT, INSERT, UPDATE or DELETE."""
    columns: tuple[str, ...] = ()
    """Columns; empty: the whole table."""


def granted(privilege: str, *roles: str, columns: tuple[str, ...] = ()) -> tuple[Grant, ...]:
    """The same privilege for several roles."""
    return tuple(Grant(role=role, privilege=privilege, columns=columns) for role in roles)


def granted_fully(*roles: str) -> tuple[Grant, ...]:
    """Every privilege on the rows of a table."""
    privileges = ("SELECT", "INSERT", "UPDATE", "DELETE")
    return tuple(grant for privilege in privileges for grant in granted(privilege, *roles))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One row policy, in the form of pg_policies."""

    name: str
    role: str
    command: str = "ALL"
    using: str | None = None
    check: str | None = None
    restrictive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccess:
    """The rights on one table. A tenant's table gets a tenant policy per role that may use it."""

    table: str
    grants: tuple[Grant, ...] = ()
    tenant: bool = True
    """False for the few platform tables without data of tenants."""
    extra_policies: tuple[Policy, ...] = ()

    @property
    def policies(self) -> tuple[Policy, ...]:
        """All policies, with the owner's: FORCE applies them to it too."""
        if not self.tenant:
            return ()
        by_hand = {one.role for one in self.extra_policies if not one.restrictive}
        roles = dict.fromkeys(grant.role for grant in self.grants if grant.role not in by_hand)
        return (
            Policy(name="owner", role=OWNER, using="true", check="true"),
            *(
                Policy(
                    name=f"tenant_{short_name(role)}",
                    role=role,
                    using=TENANT_RULE,
                    check=TENANT_RULE,
                )
                for role in roles
            ),
            *self.extra_policies,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionAccess:
    """Roles that may call a function. Only definer functions work across tenants."""

    name: str
    arguments: str
    """Types, as in its signature."""
    roles: tuple[str, ...]
    definer: bool = True


def table_statements(access: TableAccess) -> Iterator[str]:
    """Row security, policies and grants of one new table, each statement once."""
    table = f"{SCHEMA}.{access.table}"
    if access.tenant:
        yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;"
    for policy in access.policies:
        yield _policy_statement(table, policy)
    for privilege, columns in dict.fromkeys((one.privilege, one.columns) for one in access.grants):
        roles = ", ".join(
            one.role
            for one in access.grants
            if (one.privilege, one.columns) == (privilege, columns)
        )
        what = f"{privilege} ({', '.join(columns)})" if columns else privilege
        yield f"GRANT {what} ON {table} TO {roles};"


def _policy_statement(table: str, policy: Policy) -> str:
    parts = [f"CREATE POLICY {policy.name} ON {table}"]
    if policy.restrictive:
        parts.append("AS RESTRICTIVE")
    if policy.command != "ALL":
        parts.append(f"FOR {policy.command}")
    parts.append(f"TO {policy.role}")
    if policy.using is not None:
        parts.append(f"USING ({policy.using})")
    if policy.check is not None:
        parts.append(f"WITH CHECK ({policy.check})")
    return " ".join(parts) + ";"


def function_statements(access: FunctionAccess) -> Iterator[str]:
    """EXECUTE for the listed roles only."""
    function = f"{SCHEMA}.{access.name}({access.arguments})"
    yield f"REVOKE ALL ON FUNCTION {function} FROM PUBLIC;"
    if access.roles:
        yield f"GRANT EXECUTE ON FUNCTION {function} TO {', '.join(access.roles)};"
