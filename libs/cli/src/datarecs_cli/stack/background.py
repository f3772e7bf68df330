"""`up --detach`: starts the same command in a new session and follows it until it is ready."""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from datarecs_cli.stack.failures import StateUnreadableError
from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.log_lines import JsonLines, message_of
from datarecs_cli.stack.state import Phase, load

POLL_EVERY_S = 0.2


def start_in_background(
    arguments: Sequence[str],
    layout: Layout,
    *,
    environment: Mapping[str, str],
    say: Callable[[str], None],
) -> int:
    """Start `datarecs up …` detached and print its lines; 0 when it is ready, else its exit code.

    Args:
        arguments: arguments of `datarecs`, without `--detach`.
        layout: layout of the data directory; its folders exist.
        environment: for the supervisor; it may have a database URL, arguments must not.
        say: receives each line.
    """
    log = layout.log("supervisor")
    with log.open("ab") as output:
        began = output.tell()
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "datarecs_cli.stack.background", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            start_new_session=True,
        )
    while True:
        code = _ended_within(supervisor, POLL_EVERY_S)
        began = _relay(log, began, say)
        if code is not None:
            return code
        if _is_ready(layout, supervisor.pid):
            supervisor.returncode = 0  # it continues to run: avoid a warning about a running child
            return 0


def _is_ready(layout: Layout, pid: int) -> bool:
    """Whether this supervisor is ready; not as long as an earlier, damaged file is there."""
    try:
        state = load(layout.state_file)
    except StateUnreadableError:
        return False
    ours = state.supervisor is not None and state.supervisor.pid == pid
    return ours and state.phase is Phase.READY


def _ended_within(supervisor: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return supervisor.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def _relay(log: Path, start: int, say: Callable[[str], None]) -> int:
    """Print every complete line from a position on; returns the position after the last one."""
    with log.open("rb") as content:
        content.seek(start)
        lines = content.read()
    whole = lines[: lines.rfind(b"\n") + 1]
    for line in whole.decode("utf-8", "replace").splitlines():
        say(message_of(line))
    return start + len(whole)


def main() -> None:
    """Run `datarecs` with a log instead of a terminal."""
    from datarecs_cli.main import main as run_datarecs

    log = JsonLines(sys.stdout)
    sys.stdout = sys.stderr = log
    run_datarecs()


if __name__ == "__main__":
    main()
