"""The built wheel in a new environment, as a user has it: no checkout, no test code.

Packages have the versions of the lock. They come from the cache that the set-up of this checkout
has filled, and from a network only if the cache has no such package.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from datarecs_runtime.environment import process_environment
from datarecs_testing.plugin import lacking

ROOT = Path(__file__).resolve().parents[4]
_UV = Path(sys.executable).with_name("uv")
_LIMIT_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """An environment that has the wheel."""

    folder: Path
    size_bytes: int
    """Bytes of all files as installed, without byte code."""

    def run(
        self, *words: str, cwd: Path, command: str = "datarecs"
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of the wheel; return the ended process with its output."""
        return _run([str(self.folder / "bin" / command), *words], cwd)

    def evaluate(self, code: str, cwd: Path) -> str:
        """Run Python code; return its output."""
        done = _run([str(self.folder / "bin/python"), "-c", code], cwd)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def build_wheel(target: Path) -> Path:
    """Build the checkout by way of its source distribution; return the wheel."""
    words = ["build", "--offline", "--no-build-isolation", "--python", sys.executable]
    built = _run([str(_UV), *words, "--out-dir", str(target), str(ROOT)], target)
    assert built.returncode == 0, built.stderr
    (wheel,) = target.glob("*.whl")
    return wheel


def install(wheel: Path, extra: str, folder: Path, config: pytest.Config) -> Installation:
    """Install the wheel, with an extra or "", into a new environment.

    Skips the test if packages are neither cached nor available.
    """
    made = _run([str(_UV), "venv", "--python", sys.executable, str(folder)], folder.parent)
    assert made.returncode == 0, made.stderr
    words = [str(_UV), "pip", "install", "--python", str(folder / "bin/python")]
    words += ["--constraint", str(ROOT / "requirements.lock")]
    words.append(f"datarecs[{extra}] @ {wheel.as_uri()}" if extra else str(wheel))
    done = _run([*words, "--offline"], folder.parent)
    if done.returncode != 0:
        done = _run(words, folder.parent)
    if done.returncode != 0:
        lacking(config, "packages", done.stderr.strip().splitlines()[-1])
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return Installation(folder=folder, size_bytes=sum(each.stat().st_size for each in files))


def _run(words: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run without the Python settings of this process."""
    environment = {
        name: value
        for name, value in process_environment().items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    return subprocess.run(
        words,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT_S,
    )
