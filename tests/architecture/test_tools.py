"""What the tools refuse: a forgotten arm, a float among measures, sockets and sleep in unit tests.

Each is shown on a copy with the mistake in it, so that a change of configuration cannot switch a
rule off unseen.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "libs/core/src/datarecs_core"
SLEEPING = (
    '"""A test."""\n\nimport time\n\n\ndef test_x() -> None:\n    time.sleep(1)\n    assert True\n'
)
DIALLING = """
import socket
import pytest

def dial(host, port):
    with socket.create_connection((host, port), timeout=60):
        pass

def test_unit():
    dial("127.0.0.1", 9)

@pytest.mark.integration
def test_far():
    dial("192.0.2.1", 9)

@pytest.mark.integration
def test_near():
    with socket.create_server(("127.0.0.1", 0)) as server:
        dial(*server.getsockname())
"""


def checked_with(path: Path, before: str, after: str, folder: Path) -> str:
    """What mypy says of a module in which one text is replaced; the module itself stays."""
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{path} no longer contains the text this test replaces"
    copy = folder / path.name
    copy.write_text(text.replace(before, after), encoding="utf-8")
    result = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--config-file", "pyproject.toml"),
            *("--cache-dir", str(folder / "cache"), "--shadow-file", str(path), str(copy)),
            str(path),
        ],
        cwd=ROOT,
        env={"MYPYPATH": str(CORE.parent), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout


def pytest_outcomes(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """A run of pytest as this workspace configures it, over one file outside of it."""
    (folder / "test_dialling.py").write_text(text, encoding="utf-8")
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-p", "conftest"),
            *("-p", "no:cacheprovider", "-rA", "--tb=line", "-q", "test_dialling.py"),
        ],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


@pytest.mark.case("STY-03")
def test_a_forgotten_arm_is_named_by_the_type_check(tmp_path: Path) -> None:
    arm = "        case ConfirmCancel():\n            return cancellation.confirm(run, now=now)\n"
    output = checked_with(CORE / "runs/decide.py", arm, "", tmp_path)
    assert 'Argument 1 to "assert_never" has incompatible type "ConfirmCancel"' in output


@pytest.mark.case("STY-10")
def test_a_float_among_measures_is_a_type_error(tmp_path: Path) -> None:
    exact = "EXACT.multiply(gap.size, HUNDRED)"
    output = checked_with(
        CORE / "comparison/planning/tolerance.py", exact, "float(gap.size) * 100.0", tmp_path
    )
    assert 'incompatible type "float"; expected "Decimal"' in output


@pytest.mark.case("STY-07")
def test_only_marked_tests_open_sockets_and_only_on_this_machine(tmp_path: Path) -> None:
    output = pytest_outcomes(tmp_path, DIALLING).stdout
    assert "A test tried to use socket.getaddrinfo." in output
    assert 'connect() with host "192.0.2.1" (allowed: "127.0.0.1,::1")' in output
    assert "2 failed, 1 passed" in output


@pytest.mark.case("STY-07")
@pytest.mark.parametrize("place", ["libs/core/tests/test_x.py", "tests/integration/test_x.py"])
def test_a_test_that_sleeps_is_refused(place: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--stdin-filename", place, "-"],
        input=SLEEPING,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "TID251" in result.stdout
    assert "wait on the Clock port or on a signal" in result.stdout
