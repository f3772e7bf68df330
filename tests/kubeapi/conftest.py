"""A real API server for the tests of this folder: built once from its source, then started."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from datarecs_testing.plugin import lacking
from tests.kubeapi.api_server import ApiServer, BuildError, build_server, start_server


@pytest.fixture(scope="session")
def api_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    """A running server, without controllers and kubelets: objects are accepted, pods never run."""
    try:
        program = build_server()
    except BuildError as failure:
        lacking(request.config, "kubeapi", str(failure))
    with start_server(program, Path(tmp_path_factory.mktemp("kubeapi"))) as server:
        yield server
