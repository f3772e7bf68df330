import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}
EVENT = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
SOURCES = sorted(
    path for part in ("libs", "services") for path in (ROOT / part).glob("*/src/**/*.py")
)


def faults(source: str) -> Iterator[str]:
    """Log calls whose event is not a constant snake_case name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _is_log_call(node.func):
            event = node.args[0] if node.args else None
            if not isinstance(event, ast.Constant) or not EVENT.fullmatch(str(event.value)):
                yield f"line {node.lineno}: {ast.unparse(node)}"


def _is_log_call(function: ast.expr) -> bool:
    if not isinstance(function, ast.Attribute) or function.attr not in LEVELS:
        return False
    owner = ast.unparse(function.value).rpartition(".")[2]
    return owner.lstrip("_").startswith("log") or owner == "get_logger()"


@pytest.mark.case("STY-06")
@pytest.mark.parametrize(
    "call",
    [
        'log.info(f"run {run_id} closed")',
        "log.info(name)",
        'self._log.error("something broke: " + reason)',
        'logger.warning("Run closed")',
        'structlog.get_logger().info("run closed")',
        "log.exception()",
    ],
)
def test_an_event_name_that_is_not_constant_is_detected(call: str) -> None:
    assert list(faults(call)) != []


@pytest.mark.parametrize(
    "call",
    ['log.info("run_closed", result=f"{x}")', 'math.log("x")', "errors.error(name)", "log.bind(x)"],
)
def test_other_calls_are_left_alone(call: str) -> None:
    assert list(faults(call)) == []


@pytest.mark.case("STY-06")
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_log_call_of_shipped_code_has_a_static_event_name(path: Path) -> None:
    assert list(faults(path.read_text())) == []


NOW = '"""A module."""\n\nfrom datetime import UTC, datetime\n\n{use}\n'


@pytest.mark.case("STY-02")
@pytest.mark.parametrize(
    ("place", "use", "clean"),
    [
        ("libs/application/src/datarecs_application/x.py", "BORN = datetime.now(UTC)", False),
        ("libs/postgres/src/datarecs_postgres/x.py", "BORN = datetime.now(tz=UTC)", False),
        ("libs/runtime/src/datarecs_runtime/clock.py", "BORN = datetime.now(UTC)", True),
        (
            "libs/application/src/datarecs_application/x.py",
            "BORN = datetime(2026, 1, 1, tzinfo=UTC)",
            True,
        ),
    ],
)
def test_reading_the_time_of_the_machine_is_refused_outside_the_clock(
    place: str, use: str, *, clean: bool
) -> None:
    command = [sys.executable, "-m", "ruff", "check", "--stdin-filename", place, "-"]
    linted = subprocess.run(
        command, input=NOW.format(use=use), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ("TID251" in linted.stdout) is not clean
    assert (linted.returncode == 0) is clean, linted.stdout
