"""The help of every command is there at once: nothing that takes its time is imported for it."""

import subprocess
import sys

import pytest

from datarecs_cli.main import COMMANDS

HEAVY = ("fastapi", "sqlalchemy", "pyspark", "httpx", "pyarrow", "pydantic_settings", "psycopg")
GROUPS = {
    "events": ("tail", "show"),
    "key": ("create", "list", "revoke"),
    "webhook": ("listen", "deliveries"),
    "config": ("show", "path"),
}
CALLS = [
    [command.name, *words, "--help"]
    for command in COMMANDS
    for words in ((), *((one,) for one in GROUPS.get(command.name, ())))
]


@pytest.mark.case("ARC-13")
@pytest.mark.case("U06")
def test_no_help_imports_anything_heavy() -> None:
    code = (
        "import sys\nfrom datarecs_cli.main import run\n"
        f"for words in {CALLS!r}:\n"
        "    assert run(words) == 0, words\n"
        f"    loaded = [one for one in {HEAVY!r} if one in sys.modules]\n"
        "    if loaded: sys.exit(f'{words} loads {loaded}')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
