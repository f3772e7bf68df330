"""PostgreSQL against the suite of runs over captured folders, with the rights of its roles."""

import pytest
from psycopg.errors import InsufficientPrivilege

from datarecs_postgres.roles import CAPTURE, WORKER_RUN
from datarecs_testing.builders import A_TENANT, B_TENANT, an_id
from datarecs_testing.conformance.catalogued_runs import CataloguedRunsConformance
from datarecs_testing.database import PreparedDatabase

ROOT = "root"
pytestmark = pytest.mark.integration
ADD = "INSERT INTO datarecs.pointer (tenant_id, key, version) VALUES (%s, %s, 1)"
TENANT = "SELECT set_config('app.tenant_id', %s, false)"


class TestCataloguedRuns(CataloguedRunsConformance):
    pass


class TestRights:
    @pytest.mark.parametrize(
        "below",
        [
            f"tables/by-id/{an_id()}",
            f"tables/{an_id()}/snapshots/current",
            f"tables/{an_id()}/{ROOT}/current/more",
            f"catalogs/{an_id()}/tables/1/pins/2",
        ],
    )
    def test_a_run_writes_only_pins(self, database: PreparedDatabase, below: str) -> None:
        key = f"/accounts/{A_TENANT}/{below}"
        with database.connect(CAPTURE) as connection:
            connection.execute(TENANT, (str(A_TENANT),))
            connection.execute(ADD, (A_TENANT, key))
        with database.connect(WORKER_RUN) as connection:
            connection.execute(TENANT, (str(A_TENANT),))
            changed = connection.execute("UPDATE datarecs.pointer SET version = 9")
            assert changed.rowcount == 0
        for statement in (ADD, "DELETE FROM datarecs.pointer WHERE tenant_id = %s AND key = %s"):
            with database.connect(WORKER_RUN) as connection:
                connection.execute(TENANT, (str(A_TENANT),))
                with pytest.raises(InsufficientPrivilege):
                    connection.execute(statement, (A_TENANT, f"{key}2"))

    def test_a_run_pins_nothing_of_another_tenant(self, database: PreparedDatabase) -> None:
        with database.connect(WORKER_RUN) as connection:
            connection.execute(TENANT, (str(A_TENANT),))
            key = f"/accounts/{B_TENANT}/tables/{an_id()}/pins/{an_id()}"
            with pytest.raises(InsufficientPrivilege):
                connection.execute(ADD, (B_TENANT, key))
