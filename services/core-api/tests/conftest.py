"""Logs are stored instead of printed: a test uses the fixture `logs` to check them."""

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[EventDict]]:
    with capture_logs() as said:
        yield said
