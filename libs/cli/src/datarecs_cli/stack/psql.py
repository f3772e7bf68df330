"""Statements to a server before the platform's schema exists: is it there, make a database.

Through the server's own `psql`, so that the stack starts without a database driver in the process.
"""

import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from datarecs_cli.stack.process import run_text

STATEMENT_LIMIT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A superuser's way in over TCP."""

    psql: Path
    host: str
    port: int
    user: str
    password: str = field(repr=False)

    def query(self, statement: str, *, database: str = "postgres") -> "Answer":
        """One statement without literals from outside: it is visible as an argument."""
        return self._run(["-c", statement], database)

    def carry_out(self, script: str, *, database: str) -> "Answer":
        """A script, data of `COPY` included; it may hold secrets, since only we may read it."""
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
        """Create an empty database unless it is there; `name` is a plain lower-case word."""
        there = self.query(f"select 1 from pg_database where datname = '{name}'")  # noqa: S608  a word of ours
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
