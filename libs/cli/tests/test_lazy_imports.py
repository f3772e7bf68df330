"""What takes its time to import is imported by who needs it: no help, and no other comparison."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_cli.main import COMMANDS

HEAVY = ("fastapi", "sqlalchemy", "pyspark", "httpx", "pyarrow", "pydantic_settings", "psycopg")
GROUPS = {
    "events": ("tail", "show"),
    "key": ("create", "list", "revoke"),
    "webhook": (
        *("listen", "deliveries", "test", "resend", "recover", "cancel"),
        *("enable", "disable", "rotate-secret"),
    ),
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


ELSEWHERE = ("pandas", "duckdb", "psycopg", "sqlalchemy", "ruamel.yaml", "pyspark", "asyncio")
"""Libraries of other sources, files and engines."""


def test_a_small_comparison_of_files_imports_only_what_reads_them(tmp_path: Path) -> None:
    names = ("one.parquet", "two.parquet")
    for name, amount in zip(names, ("1.10", "1.20"), strict=True):
        pq.write_table(pa.table({"id": ["1"], "amount": [amount]}), tmp_path / name)
    code = (
        "import sys\nfrom datarecs_cli.main import run\n"
        f"code = run(['compare', {names[0]!r}, {names[1]!r}, '--key', 'id'])\n"
        f"print(code, [one for one in {ELSEWHERE!r} if one in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "1 []"
