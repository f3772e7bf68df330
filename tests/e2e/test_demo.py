"""`datarecs demo` as people meet it: on a running platform, and from nothing."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from datarecs_cli.stack.layout import layout_of
from datarecs_cli.stack.state import Phase, load
from datarecs_runtime.environment import process_environment
from datarecs_testing.afterwards import afterwards

pytestmark = pytest.mark.e2e
SAMPLE: dict[str, Any] = {
    "source_row_counts": {"source_0": 1000, "source_1": 1005},
    "join_stats": {"matched_groups": 980, "unmatched_by_source": {"source_0": 5, "source_1": 20}},
    "tolerances": [
        {
            "measure_name": "total_amount",
            "tolerance_type": "ABSOLUTE",
            "tolerance_value": 0.01,
            "within_tolerance_count": 975,
            "outside_tolerance_count": 5,
            "passed": False,
        }
    ],
    "result": "UNMATCHED",
    "rows_compared": 1005,
    "rows_matched": 975,
    "rows_unmatched": 30,
}
"""`run.comparison.completed` of Source 001, without its ids."""
LINES = """\
  run 1  DIFF UNMATCHED  980 in both | 5 only in ledger | 20 only in exports
         total_amount ABSOLUTE 0.01   975 within | 5 outside | gap -1,234.56
         largest  account 4711  ledger 1,500.00  exports 500.00  delta -1,000.00
"""


class Shown:
    """What one demo did."""

    def __init__(self, folder: Path, done: subprocess.CompletedProcess[str]) -> None:
        self.folder, self.done = folder, done

    @property
    def runs(self) -> list[str]:
        """Ids, first the unmatched one."""
        reports = [self.folder / ".datarecs/demo" / f"report-{number}.html" for number in (1, 2)]
        return [
            re.findall(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}", one.read_text())[0]
            for one in reports
        ]


@pytest.fixture(scope="module")
def shown(platform: Any) -> Shown:  # noqa: ANN401  the platform of this folder's conftest
    environment = process_environment() | {"LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-m", "datarecs_cli", "demo"],
        cwd=platform.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return Shown(platform.folder, done)


@pytest.mark.case("U01")
def test_both_outcomes_are_as_announced(shown: Shown) -> None:
    assert shown.done.returncode == 0, shown.done.stdout + shown.done.stderr
    assert LINES in shown.done.stdout
    assert "  run 2  OK MATCHED      985 of 985 groups within tolerance\n" in shown.done.stdout
    assert shown.done.stdout.count("run.finalised delivered, signature verified, attempt 1") == 2
    assert "\x1b" not in shown.done.stdout + shown.done.stderr


def events(platform: Any, run_id: str) -> list[dict[str, Any]]:  # noqa: ANN401  as above
    printed = platform.datarecs("events", "tail", "--run", run_id, "-o", "jsonl")
    return [json.loads(line) for line in printed.stdout.splitlines()]


@pytest.mark.case("F18")
def test_the_event_says_field_for_field_what_source_001_says(platform: Any, shown: Shown) -> None:  # noqa: ANN401  as above
    (compared,) = [
        one["data"]
        for one in events(platform, shown.runs[0])
        if one["type"].endswith("run.comparison.completed")
    ]
    tolerances = [
        {name: value for name, value in one.items() if name in SAMPLE["tolerances"][0]}
        for one in compared["tolerances"]
    ]
    fields = {name: compared[name] for name in SAMPLE} | {"tolerances": tolerances}
    assert fields == SAMPLE
    assert set(compared) >= {"run_id", "job_id", "tenant_id"}


@pytest.mark.case("L01")
def test_each_run_ends_once_in_order_and_is_mailed_once(platform: Any, shown: Shown) -> None:  # noqa: ANN401  as above
    for run_id in shown.runs:
        run_events = events(platform, run_id)
        names = [one["type"].rpartition("reconciliation.")[2] for one in run_events]
        assert [int(one["runsequence"]) for one in run_events] == list(
            range(1, len(run_events) + 1)
        )
        assert names.count("run.finalised") == 1
        assert names[-1] == "run.finalised"
        assert not [name for name in names if "errored" in name or "cancel" in name]
    assert len(platform.mails(shown.runs[0])) == 1


def test_the_reports_are_files_that_need_nothing_else(shown: Shown) -> None:
    for number, outcome in ((1, "UNMATCHED"), (2, "MATCHED")):
        page = (shown.folder / ".datarecs/demo" / f"report-{number}.html").read_text()
        assert outcome in page
        assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)


def test_what_the_demo_names_as_next_works(platform: Any, shown: Shown) -> None:  # noqa: ANN401  as above
    diff = platform.datarecs("diff", shown.runs[0])
    assert diff.returncode == 1
    assert diff.stdout.splitlines()[1].split()[0] == "4711"
    assert platform.datarecs("validate", "demo/ledger.recon.yaml").returncode == 0
    again = platform.datarecs("run", "demo/ledger.recon.yaml")
    assert again.returncode == 0, again.stderr
    assert "985 of 985 groups" in again.stdout


@pytest.mark.parametrize(
    ("what", "detail"),
    [("password", "CONNECTION_FAILED"), ("table", "QUERY_ERROR")],
)
def test_a_ledger_that_cannot_be_read_is_errored_and_says_why(
    platform: Any,  # noqa: ANN401  as above
    shown: Shown,
    what: str,
    detail: str,
) -> None:
    declared = (shown.folder / "demo/platform.yaml").read_text()
    job = (shown.folder / "demo/ledger.recon.yaml").read_text()
    secret = re.findall(r'password: "file:([^"]+)"', declared)[0]
    if what == "password":
        wrong = Path(secret).with_name("wrong")
        wrong.write_text("not the password")
        wrong.chmod(Path(secret).stat().st_mode)
        declared = declared.replace(secret, str(wrong))
    job = job.replace("demo.ledger}", "demo.nobody}" if what == "table" else "demo.ledger}")
    declared = declared.replace("name: demo-ledger", f"name: no-{what}")
    job = job.replace("connection: demo-ledger", f"connection: no-{what}")
    job = job.replace("ledger-vs-exports", f"no-{what}")
    platform.apply(f"demo/no-{what}.yaml", f"{declared}\n---\n{job}")
    run = platform.ended(platform.trigger(f"no-{what}"))
    assert (run["status"], run["result"]) == ("ERRORED", None)
    assert (run["error"]["code"], run["error"]["detail_code"]) == ("QUERY_FAILED", detail)
    assert "not the password" not in json.dumps(run)
    output = platform.datarecs("run", f"no-{what}")
    assert output.returncode == 3
    assert detail in output.stdout + output.stderr


def test_the_demo_can_be_played_again(platform: Any, shown: Shown) -> None:  # noqa: ANN401  as above
    assert shown.done.returncode == 0
    again = platform.datarecs("demo", "-o", "json")
    assert again.returncode == 0, again.stderr
    document = json.loads(again.stdout)
    assert [one["result"] for one in document["runs"]] == ["UNMATCHED", "MATCHED"]
    assert document["schema"] == "datarecs.cli.demo/1"
    endpoint = platform.datarecs("get", "hook", "demo-receiver", "-o", "yaml").stdout
    assert "enabled: false" in endpoint  # its receiver went with the command


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Path]:
    """A folder in which nothing was ever started; nothing runs there afterwards."""
    command = [sys.executable, "-m", "datarecs_cli", "down", "--reset", "--yes"]
    with afterwards(command, cwd=tmp_path):
        yield tmp_path


CLOSED = "http://127.0.0.1:9"
NO_NETWORK = {
    "DATARECS_JARS__MIRROR": CLOSED,
    "HTTP_PROXY": CLOSED,
    "HTTPS_PROXY": CLOSED,
    "ALL_PROXY": CLOSED,
    "NO_PROXY": "127.0.0.1",
}
"""Every way to a download leads to a closed port; times are `make bench`'s."""


@pytest.mark.slow
@pytest.mark.case("U01")
@pytest.mark.case("U02")
def test_from_nothing_and_without_a_network_the_demo_starts_the_platform_and_stops_it(
    fresh: Path,
) -> None:
    environment = process_environment() | {"LC_ALL": "C.UTF-8", "DEMO_KEEP": "0"} | NO_NETWORK
    done = subprocess.run(
        [sys.executable, "-m", "datarecs_cli", "demo"],
        cwd=fresh,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "▲ UNMATCHED  980 in both · 5 only in ledger · 20 only in exports" in done.stdout
    assert "✓ PostgreSQL" in done.stderr
    state = load(layout_of(fresh / ".datarecs").state_file)
    assert (state.phase, dict(state.parts)) == (Phase.STOPPED, {})
    assert (fresh / ".datarecs/demo/report-1.html").stat().st_size < 2_000_000
