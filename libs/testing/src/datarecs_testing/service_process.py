"""A service as a process as in production: its own interpreter, settings by environment.

For the few tests that show a whole service over real servers; handlers and loops are tested without
it.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from datarecs_runtime.environment import process_environment
from datarecs_runtime.lifeline import tied_to_parent

_PASSED_ON = ("PATH", "HOME", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceProcess:
    """A running service."""

    process: subprocess.Popen[bytes]
    log: Path

    def text(self) -> str:
        """Everything it has logged."""
        return self.log.read_text()

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.process.wait()

    def stop(self, *, timeout: float = 40) -> int:
        """SIGTERM, and the exit code of its drain."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)


@contextmanager
def running_service(
    module: str,
    settings: Mapping[str, str],
    *,
    log: Path,
    arguments: Sequence[str] = (),
    folder: Path | None = None,
) -> Iterator[ServiceProcess]:
    """`python -m module` for as long as the block lasts, in a working directory of its own."""
    inherited = {name: value for name, value in process_environment().items() if name in _PASSED_ON}
    with log.open("ab") as out:
        process = subprocess.Popen(
            tied_to_parent([sys.executable, "-m", module, *arguments]),
            cwd=folder,
            env={**inherited, "DATARECS_SIDE__PORT": "0", **settings},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    service = ServiceProcess(process=process, log=log)
    try:
        yield service
    finally:
        if process.poll() is None:
            service.kill()
