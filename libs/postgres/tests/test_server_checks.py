"""A service of profile `server` does not start on an unsafe login, table, clock or profile."""

from contextlib import closing
from datetime import timedelta

import pytest

from datarecs_core.egress.addresses import Profile
from datarecs_core.errors.process import InsecureStartError
from datarecs_postgres.database import Database
from datarecs_postgres.failures import UnsafeLoginError
from datarecs_postgres.roles import API, MIGRATE, UNPRIVILEGED
from datarecs_postgres.server_checks import note_profile, refuse_unsafe_database
from datarecs_runtime.clock import SystemClock
from datarecs_testing.database import PreparedDatabase

pytestmark = pytest.mark.integration
NOW = SystemClock().now


def faults(*urls: str, profile: Profile = Profile.SERVER, late: timedelta = timedelta()) -> str:
    """Of logins of one service."""
    databases = [Database(url) for url in urls]
    try:
        refuse_unsafe_database(databases, profile, now=lambda: NOW() + late)
    except InsecureStartError as refusal:
        return "\n".join(map(str, refusal.faults))
    finally:
        for each in databases:
            each.close()
    return ""


@pytest.mark.parametrize("role", UNPRIVILEGED)
def test_the_roles_of_services_are_safe(database: PreparedDatabase, role: str) -> None:
    assert faults(database.url(role)) == ""


@pytest.mark.case("X91")
def test_every_login_of_a_service_is_checked(database: PreparedDatabase) -> None:
    seen = faults(database.url(API), database.admin_url, database.url(MIGRATE))
    assert "is a superuser; use the role of the service" in seen
    assert "S4: the database login datarecs_migrate may act as datarecs_owner" in seen


@pytest.mark.case("X91")
def test_a_table_without_forced_row_security_is_named(private_database: PreparedDatabase) -> None:
    private_database.query("ALTER TABLE datarecs.run NO FORCE ROW LEVEL SECURITY")
    private_database.query("ALTER TABLE datarecs.resource DISABLE ROW LEVEL SECURITY")
    seen = faults(private_database.url(API))
    assert seen.startswith("S5: row-level security is off or not forced for resource, run;")


@pytest.mark.case("X91")
@pytest.mark.parametrize("late", [timedelta(seconds=60), timedelta(seconds=-60)])
def test_a_wrong_clock_is_refused(database: PreparedDatabase, late: timedelta) -> None:
    assert faults(database.url(API), late=late).startswith("S16: the clock of this machine differs")


def test_a_clock_within_five_seconds_is_accepted(database: PreparedDatabase) -> None:
    assert faults(database.url(API), late=timedelta(seconds=4)) == ""


def test_profile_local_checks_the_login_alone(private_database: PreparedDatabase) -> None:
    assert faults(private_database.url(API), profile=Profile.LOCAL) == ""
    with pytest.raises(UnsafeLoginError), closing(Database(private_database.admin_url)) as login:
        refuse_unsafe_database((login,), Profile.LOCAL, now=NOW)


def test_one_service_cannot_leave_the_profile_of_the_others(
    private_database: PreparedDatabase,
) -> None:
    note_profile(private_database.url(MIGRATE), Profile.SERVER)
    assert faults(private_database.url(API)) == ""
    seen = faults(private_database.url(API), profile=Profile.LOCAL)
    assert "DATARECS_PROFILE is local, but the database belongs to services of profile" in seen
    note_profile(private_database.url(MIGRATE), Profile.LOCAL)
    assert faults(private_database.url(API), profile=Profile.LOCAL) == ""
