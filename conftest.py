"""What holds for every test of the workspace: servers, allowed hosts, example counts."""

import gc
import signal

import hypothesis
import pytest

from datarecs_runtime.environment import process_environment

pytest_plugins = ["datarecs_testing.plugin"]

MAY_DIAL_LOOPBACK = ("integration", "spark", "e2e", "browser", "kubeapi")

# No deadline: how long an example takes is the machine's matter, and speed is shown by benches.
hypothesis.settings.register_profile("dev", max_examples=50, deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", max_examples=500, deadline=None, print_blob=True)
hypothesis.settings.register_profile("model", max_examples=10_000, deadline=None, print_blob=True)
hypothesis.settings.load_profile("ci" if process_environment().get("CI") else "dev")


def pytest_configure() -> None:
    """In a shell's background job Ctrl-C is ignored, and by every command that a test starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only tests that say so may open a socket, and only to this machine.

    Raises:
        pytest.UsageError: a file does not name the mark of its test, so that `make test`, which
            finds the files of a layer by that name, would leave it out.
    """
    texts: dict[object, str] = {}
    for item in items:
        marks = [name for name in MAY_DIAL_LOOPBACK if item.get_closest_marker(name)]
        if marks:
            item.add_marker(pytest.mark.allow_hosts(["127.0.0.1", "::1"]))
            text = texts.setdefault(item.path, item.path.read_text())
            if unnamed := [name for name in marks if f"mark.{name}" not in text]:
                raise pytest.UsageError(f"{item.path} has to name pytest.mark.{unnamed[0]}")


def pytest_collection_finish() -> None:
    """Set thousands of collected tests apart, which every garbage collection would walk over."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()
