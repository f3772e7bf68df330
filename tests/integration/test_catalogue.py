"""PostgreSQL with files and with an object store against the repository suites of the catalogue."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from datarecs_application.ports.outside import BlobStores
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.roles import CAPTURE
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_storage.opening import open_blob_stores
from datarecs_testing.catalogue import CatalogueStores
from datarecs_testing.clock import FixedIds
from datarecs_testing.conformance.catalogue import CatalogueConformance
from datarecs_testing.conformance.catalogue_collecting import CollectingConformance
from datarecs_testing.conformance.catalogue_ended import EndedConformance
from datarecs_testing.conformance.catalogue_generations import GenerationsConformance
from datarecs_testing.conformance.catalogue_indexes import IndexesConformance
from datarecs_testing.conformance.catalogue_snapshots import (
    RepeatedRequestsConformance,
    SnapshotsConformance,
    StatisticsConformance,
)
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.object_store import ADMIN, ObjectServer

pytestmark = pytest.mark.integration


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStores:
    return open_blob_stores((tmp_path / "blobs").as_uri())


@pytest.fixture
def catalogue(database: PreparedDatabase, blobs: BlobStores) -> Iterator[CatalogueStores]:
    with ExitStack() as stack:

        def unit(role: str) -> PostgresUnitOfWork:
            made = Database(database.url(role), limits=Limits(pool_size=4))
            return PostgresUnitOfWork(stack.enter_context(closing(made)), FixedIds())

        yield CatalogueStores(
            worker=unit(CAPTURE),
            collector=unit(CAPTURE),
            blobs=blobs,
            pass_database_time=database.pass_time,
        )


class TestCatalogue(CatalogueConformance):
    pass


class TestSnapshots(SnapshotsConformance):
    pass


class TestStatistics(StatisticsConformance):
    pass


class TestGenerations(GenerationsConformance):
    pass


class TestIndexes(IndexesConformance):
    pass


class TestEnded(EndedConformance):
    pass


class TestRepeatedRequests(RepeatedRequestsConformance):
    pass


class TestCollecting(CollectingConformance):
    pass


class ObjectStore:
    """Blobs in an object store instead of files."""

    @pytest.fixture
    def blobs(self, object_server: ObjectServer) -> BlobStores:
        return open_blob_stores(
            f"s3://{object_server.create_folder()}/catalogue",
            endpoint=object_server.endpoint,
            region="us-east-1",
            credentials=ADMIN,
        )


class TestCatalogueOfObjects(ObjectStore, CatalogueConformance):
    pass


class TestSnapshotsOfObjects(ObjectStore, SnapshotsConformance):
    pass


class TestStatisticsOfObjects(ObjectStore, StatisticsConformance):
    pass


class TestGenerationsOfObjects(ObjectStore, GenerationsConformance):
    pass


class TestEndedOfObjects(ObjectStore, EndedConformance):
    pass


class TestRepeatedRequestsOfObjects(ObjectStore, RepeatedRequestsConformance):
    pass


class TestCollectingOfObjects(ObjectStore, CollectingConformance):
    pass


class TestIndexesOfObjects(ObjectStore, IndexesConformance):
    pass
