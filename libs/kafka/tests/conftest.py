"""What the tests of this member share: ways to the session's broker, and fresh topics on it."""

import gc
import logging
import secrets
import warnings
from collections.abc import Callable, Iterator

import pytest
import structlog
from kafka.admin import KafkaAdminClient

from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.client import KafkaLogClient
from datarecs_testing.stack import KafkaBroker

Codes = Callable[[], set[str]]


@pytest.fixture(scope="session")
def access(kafka_broker: KafkaBroker) -> BrokerAccess:
    """The administrator's."""
    return kafka_broker.access


@pytest.fixture
def log_client(access: BrokerAccess) -> KafkaLogClient:
    return KafkaLogClient(access)


@pytest.fixture
def administration(access: BrokerAccess) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(**access.settings()) as admin:
        yield admin


@pytest.fixture
def topic(administration: KafkaAdminClient) -> str:
    """An empty topic of three partitions."""
    name = f"t-{secrets.token_hex(6)}"
    administration.create_topics(
        {name: {"num_partitions": 3, "replication_factor": 1}}, wait_for_metadata=True
    )
    return name


@pytest.fixture
def reported_codes() -> Iterator[Codes]:
    """Codes of the lines that are logged during the test, so that an operator can find them."""
    with structlog.testing.capture_logs() as lines:
        yield lambda: {str(line["code"]) for line in lines if "code" in line}


@pytest.fixture
def careless_sockets() -> Iterator[None]:
    """kafka-python does not close a socket with a refused or incomplete connection.

    Its log records hold it through the traceback, so they are not made; the rest is collected
    here, before the warning of an unclosed socket is an error again. See also the hook below.
    """
    library = logging.getLogger("kafka")
    before = library.level
    library.setLevel(logging.CRITICAL + 1)
    yield
    library.setLevel(before)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Sockets of the library may be collected in the middle of a test, not only after it."""
    if "careless_sockets" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
