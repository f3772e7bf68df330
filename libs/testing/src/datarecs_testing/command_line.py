"""Run `datarecs` in a separate process.

Spark has one context per process: a command that starts one must not run in the process of tests.
"""

import subprocess
import sys
from pathlib import Path

from datarecs_cli.stack.java import Java
from datarecs_runtime.environment import process_environment


def run_command(java: Java | None, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The ended command, with what it printed."""
    environment = process_environment()
    if java is not None:
        environment = {**environment, "DATARECS_JAVA__HOME": str(java.home)}
    return subprocess.run(
        [sys.executable, "-m", "datarecs_cli", *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
