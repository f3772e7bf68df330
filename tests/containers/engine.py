"""Podman as the tests call it."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Podman with the settings of these tests."""

    environment: Mapping[str, str]

    def run(
        self, *words: str, cwd: Path = ROOT, check: bool = True, timeout_s: float = LIMIT_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of Podman; return the ended process with its output."""
        return self.call(["podman", *words], cwd=cwd, check=check, timeout_s=timeout_s)

    def call(
        self, words: list[str], *, cwd: Path = ROOT, check: bool = True, timeout_s: float = LIMIT_S
    ) -> subprocess.CompletedProcess[str]:
        """Run any command with these settings."""
        ended = subprocess.run(
            words,
            cwd=cwd,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        if check:
            assert ended.returncode == 0, f"{words}\n{ended.stdout}\n{ended.stderr}"
        return ended
