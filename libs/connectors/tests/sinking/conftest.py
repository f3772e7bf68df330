"""The lake that the tests of this folder write to."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from datarecs_core.resources.connection import IcebergConfig
from datarecs_testing.lake import Lake, a_lake

from .sink_house import House


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with ExitStack() as closing:
        yield a_lake(tmp_path / "lake", closing)


@pytest.fixture
def house(lake: Lake) -> House:
    config = lake.connection.config
    assert isinstance(config, IcebergConfig)
    return House(lake=lake, config=config)
