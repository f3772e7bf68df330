"""The chart's tests need Helm's library."""

import importlib.util

import pytest

from datarecs_testing.plugin import lacking


@pytest.fixture(autouse=True)
def helm_library(request: pytest.FixtureRequest) -> None:
    """Skip, with one loud line, where no wheel of the library fits the machine."""
    if importlib.util.find_spec("helm_python") is None:
        lacking(request.config, "helm", "no wheel of helm-python-sdk fits this machine")
