"""Runs statements on a server before the platform's schema exists: checks, new databases.

It uses the server's `psql`, so that the stack starts without a database driver.
"""

import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from datarecs_cli.stack.process import run_text

STATEMENT_LIMIT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A superuser's login over TCP."""

    psql: Path
    host: str
    port: int
    user: str
    password: str = field(repr=False)

    def query(self, statement: str, *, database: str = "postgres") -> "Answer":
        """Run one statement without external literals, because it is visible as an argument."""
        return self._run(["-c", statement], database)

    def carry_out(self, script: str, *, database: str) -> "Answer":
        """Run a script with data of `COPY`; it may have secrets, as no other account reads it."""
        with tempfile.NamedTemporaryFile("w", suffix=".sql", encoding="utf-8") as source:
            source.write(script)
            source.flush()
            return self._run(["-f", source.name], database)

    def _run(self, what: list[str], database: str) -> "Answer":
        with tempfile.NamedTemporaryFile("w", suffix=".pgpass", encoding="utf-8") as passfile:
            passfile.write(f"*:*:*:*:{_escaped(self.password)}\n")
            passfile.flush()
            argv = [str(self.psql), "-XAtqw", "-v", "ON_ERROR_STOP=1", "-h", self.host]
            argv += ["-p", str(self.port), "-U", self.user, "-d", database, *what]
            try:
                ended = run_text(
                    argv,
                    environment={"PGPASSFILE": passfile.name, "PGCONNECT_TIMEOUT": "5"},
                    timeout_s=STATEMENT_LIMIT_S,
                )
            except subprocess.TimeoutExpired:
                return Answer(text=f"no answer within {STATEMENT_LIMIT_S} s", refused=True)
        return Answer(text=ended.stdout.strip(), refused=ended.returncode != 0)

    def ensure_database(self, name: str) -> "Answer":
        """Create an empty database if it does not exist; `name` is a plain lower-case word."""
        there = self.query(f"select 1 from pg_database where datname = '{name}'")  # noqa: S608  a constant of this code
        if there.refused or there.text == "1":
            return there
        return self.query(f"create database {name} template template0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    text: str
    """Rows without header, or the server's message."""
    refused: bool


def _escaped(password: str) -> str:
    return password.replace("\\", "\\\\").replace(":", "\\:")
