"""A DynamoDB of moto on the loopback, with an empty table for each test."""

from collections.abc import Iterator
from itertools import count

import pytest

from datarecs_dynamodb.table import PointerTable, open_table
from datarecs_testing.dynamo_server import DynamoServer, start_dynamo_server

_numbers = count()


@pytest.fixture(scope="session")
def dynamo_server() -> Iterator[DynamoServer]:
    with start_dynamo_server() as server:
        yield server


@pytest.fixture
def table(dynamo_server: DynamoServer, monkeypatch: pytest.MonkeyPatch) -> PointerTable:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of-the-emulator")
    name = f"pointers-{next(_numbers)}"
    made = open_table(name, region="eu-central-1", endpoint=dynamo_server.endpoint)
    made.create()
    return made
