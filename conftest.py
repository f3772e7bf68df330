"""What holds for every test of the workspace: servers, allowed hosts, example counts."""

import gc
import signal

import hypothesis
import pytest

from datarecs_runtime.environment import process_environment

pytest_plugins = ["datarecs_testing.plugin"]

MAY_DIAL_LOOPBACK = ("integration", "spark", "e2e", "browser")

# No deadline: how long an example takes is the machine's matter, and speed is shown by benches.
hypothesis.settings.register_profile("dev", max_examples=50, deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", max_examples=500, deadline=None, print_blob=True)
hypothesis.settings.register_profile("model", max_examples=10_000, deadline=None, print_blob=True)
hypothesis.settings.load_profile("ci" if process_environment().get("CI") else "dev")


def pytest_configure() -> None:
    """In a shell's background job Ctrl-C is ignored, and by every command that a test starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only tests that say so may open a socket, and only to this machine."""
    for item in items:
        if any(item.get_closest_marker(name) for name in MAY_DIAL_LOOPBACK):
            item.add_marker(pytest.mark.allow_hosts(["127.0.0.1", "::1"]))


def pytest_collection_finish() -> None:
    """Set thousands of collected tests apart, which every garbage collection would walk over."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()
