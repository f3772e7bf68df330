"""Making tenants, and the first key that opens them."""

from contextlib import closing
from datetime import timedelta

import pytest

from datarecs_application.errors import StoreUnavailableError
from datarecs_core.access.permissions import GRANTS, Role
from datarecs_core.access.tokens import is_genuine, parse_key
from datarecs_postgres.database import Database
from datarecs_postgres.failures import RolesMissingError, TenantExistsError
from datarecs_postgres.roles import API, MIGRATE
from datarecs_postgres.tenants import create_tenant, new_admin_key
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_testing.database import PreparedDatabase

pytestmark = pytest.mark.integration


def test_a_new_tenant_has_one_admin_key_that_is_shown_once(database: PreparedDatabase) -> None:
    tenant, text = create_tenant(database.url(MIGRATE), "default")
    presented = parse_key(text)
    assert presented is not None
    with closing(Database(database.url(API))) as pool:
        stored = PostgresWorkFinder(pool).resolve_api_key(presented.key_id)
    assert stored is not None
    assert stored.tenant_id == tenant
    assert stored.permissions == GRANTS[Role.ADMIN]
    assert stored.expires_at - stored.created_at == timedelta(days=366)
    assert is_genuine(presented, stored.secret_sha256)
    assert presented.secret.encode() not in stored.secret_sha256


def test_a_name_in_use_is_refused_and_nothing_is_made(database: PreparedDatabase) -> None:
    create_tenant(database.url(MIGRATE), "default")
    with pytest.raises(TenantExistsError) as failure:
        create_tenant(database.url(MIGRATE), "default")
    assert failure.value.name == "default"
    assert database.query("SELECT count(*) FROM datarecs.api_key") == [(1,)]


@pytest.mark.case("X01")
def test_a_second_tenant_sees_nothing_of_the_first(database: PreparedDatabase) -> None:
    tenant, _ = create_tenant(database.url(MIGRATE), "default")
    other, _ = create_tenant(database.url(MIGRATE), "other")
    with database.connect(API) as connection:
        connection.execute("SELECT set_config('app.tenant_id', %s, false)", (str(other),))
        names = connection.execute("SELECT name FROM datarecs.tenant").fetchall()
        keys = connection.execute("SELECT DISTINCT tenant_id FROM datarecs.api_key").fetchall()
    assert names == [("other",)]
    assert keys == [(other,)]
    assert tenant != other


def test_a_lost_key_is_replaced_and_the_old_one_stays(database: PreparedDatabase) -> None:
    tenant, first = create_tenant(database.url(MIGRATE), "default")
    same, second = new_admin_key(database.url(MIGRATE), "default")
    assert same == tenant
    assert first != second
    assert database.query("SELECT count(*) FROM datarecs.api_key") == [(2,)]


def test_a_key_for_nobody_is_refused(database: PreparedDatabase) -> None:
    with pytest.raises(LookupError, match="nobody"):
        new_admin_key(database.url(MIGRATE), "nobody")


def test_a_service_makes_no_tenants(database: PreparedDatabase) -> None:
    with pytest.raises(RolesMissingError, match="datarecs_migrate"):
        create_tenant(database.url(API), "default")


def test_an_unreachable_server_is_unavailable() -> None:
    with pytest.raises(StoreUnavailableError):
        create_tenant("postgresql://u:p@127.0.0.1:1/d", "default")
