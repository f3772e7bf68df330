"""Figures of the local platform: start, the demo's first verdict, warm runs of the demo's job.

`make bench` prints one JSON document with the machine's load, so that figures of two runs can be
distinguished from figures of two machines. It asserts nothing: a timed test would only be flaky.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from time import perf_counter

import httpx
import psycopg

from datarecs_cli.stack.postgres import SUPERUSER
from datarecs_runtime.environment import process_environment

RUNS = 50
JOB = "ledger-vs-exports"
DATARECS = (sys.executable, "-m", "datarecs_cli")


def datarecs(folder: Path, *arguments: str) -> float:
    """Run the command in the folder; seconds it took. Fails loudly."""
    began = perf_counter()
    subprocess.run([*DATARECS, *arguments], cwd=folder, check=True, capture_output=True)
    return perf_counter() - began


def first_verdict(folder: Path) -> float:
    """Seconds from a demo's start to its first verdict; the platform is down afterwards."""
    began, verdict = perf_counter(), 0.0
    environment = process_environment() | {"DEMO_KEEP": "0"}
    with subprocess.Popen(
        [*DATARECS, "demo"], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as demo:
        for line in demo.stdout or ():
            if not verdict and line.strip().startswith("run 1"):
                verdict = perf_counter() - began
    if demo.returncode != 0:
        raise RuntimeError(f"the demo ended with exit code {demo.returncode}")
    return verdict


def warm_runs(folder: Path) -> list[float]:
    """Seconds from the trigger's request to the answer that the run has ended."""
    known = tomllib.loads((folder / ".datarecs/credentials.toml").read_text())["local"]
    headers = {"Authorization": f"Bearer {known['api_key']}", "Prefer": "wait=30"}
    seconds = []
    with httpx.Client(base_url=known["server"], headers=headers, timeout=60) as client:
        for _ in range(RUNS):
            began = perf_counter()
            answer = client.post(f"/api/v1/jobs/{JOB}/runs", json={})
            answer.raise_for_status()
            if answer.json()["result"] != "MATCHED":
                raise RuntimeError(f"the run ended {answer.json()}")
            seconds.append(perf_counter() - began)
    return seconds


def footprint(folder: Path) -> dict[str, float]:
    """What runs add to: events, transactions of all services, KB of tables and of blobs."""
    home = folder / ".datarecs"
    port = json.loads((home / "state.json").read_text())["ports"]["postgres"]
    with psycopg.connect(
        host="127.0.0.1",
        port=port,
        user=SUPERUSER,
        password=(home / "secrets" / "postgres-stack").read_text(),
        dbname="datarecs",
    ) as session:
        row = session.execute(
            "SELECT (SELECT count(*) FROM datarecs.outbox),"
            " (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),"
            " (SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
            "  WHERE relkind = 'r' AND relnamespace = 'datarecs'::regnamespace)"
        ).fetchone()
    if row is None:
        raise RuntimeError("the database answers nothing")
    blobs = sum(one.stat().st_size for one in (home / "blobs").rglob("*") if one.is_file())
    return {
        "events": float(row[0]),
        "transactions": float(row[1]),
        "database_kb": float(row[2]) / 1000,
        "blobs_kb": blobs / 1000,
    }


def main() -> int:
    """Print the figures."""
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        verdicts = [first_verdict(folder) for _ in range(2)]
        second_up = datarecs(folder, "up", "--detach")
        try:
            before = footprint(folder)
            runs = warm_runs(folder)
            after = footprint(folder)
        finally:
            datarecs(folder, "down", "--reset", "--yes")
    ordered = sorted(runs)
    figures = {
        "machine": {
            "cores": os.cpu_count(),
            "load_before": load_before,
            "load": os.getloadavg()[0],
        },
        "demo_to_first_verdict_s": [round(one, 1) for one in verdicts],
        "of_one_run": {name: round((after[name] - before[name]) / RUNS, 1) for name in before},
        "up_again_s": round(second_up, 1),
        "warm_run_s": {
            "runs": len(runs),
            "first": round(runs[0], 3),
            "median": round(statistics.median(ordered), 3),
            "p95": round(ordered[int(len(ordered) * 0.95)], 3),
            "max": round(ordered[-1], 3),
        },
    }
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
