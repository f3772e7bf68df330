"""Figures of the local platform: second start, and a warm run from trigger to its end.

`make bench` prints one JSON document with the machine's load, so that figures of two runs can be
told apart from figures of two machines. It asserts nothing: a timed test would only be flaky.
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

RUNS = 50
ROWS = 1_000
JOB = """
apiVersion: datarecs.io/v1
kind: Connection
metadata: {name: bench-files}
spec: {type: files, config: {root: .}}
---
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: bench}
spec:
  sources:
    - {name: ledger, kind: csv, connection: bench-files, path: ledger.csv}
    - {name: exports, kind: csv, connection: bench-files, path: exports.csv}
  stages:
    - name: balance
      type: aggregate
      dimensions: [account]
      measures:
        - name: total
          function: sum
          column: amount
          tolerances: [{type: ABSOLUTE, value: "0.01"}]
"""


def datarecs(folder: Path, *arguments: str) -> float:
    """Run the command in the folder; seconds it took. Fails loudly."""
    began = perf_counter()
    subprocess.run(
        [sys.executable, "-m", "datarecs_cli", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return perf_counter() - began


def write_data(folder: Path) -> None:
    for name, extra in (("ledger", 0), ("exports", 5)):
        lines = [f"{number},{number % 97}.25" for number in range(ROWS + extra)]
        (folder / f"{name}.csv").write_text("account,amount\n" + "\n".join(lines) + "\n")
    (folder / "bench.recon.yaml").write_text(JOB)


def warm_runs(folder: Path) -> list[float]:
    """Seconds from the trigger's request to the answer that the run has ended."""
    known = tomllib.loads((folder / ".datarecs/credentials.toml").read_text())["local"]
    headers = {"Authorization": f"Bearer {known['api_key']}", "Prefer": "wait=30"}
    seconds = []
    with httpx.Client(base_url=known["server"], headers=headers, timeout=60) as client:
        for _ in range(RUNS + 1):
            began = perf_counter()
            answer = client.post("/api/v1/jobs/bench/runs", json={})
            answer.raise_for_status()
            if answer.json()["result"] != "UNMATCHED":
                raise RuntimeError(f"the run ended {answer.json()}")
            seconds.append(perf_counter() - began)
    return seconds[1:]  # the first run of a session warms it


def main() -> int:
    """Print the figures."""
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        write_data(folder)
        first = datarecs(folder, "up", "--detach")
        datarecs(folder, "down")
        second = datarecs(folder, "up", "--detach")
        try:
            datarecs(folder, "apply", "-f", "bench.recon.yaml")
            runs = sorted(warm_runs(folder))
        finally:
            datarecs(folder, "down")
    figures = {
        "machine": {
            "cores": os.cpu_count(),
            "load_before": load_before,
            "load": os.getloadavg()[0],
        },
        "up_first_s": round(first, 2),
        "up_second_s": round(second, 2),
        "warm_run_s": {
            "runs": len(runs),
            "median": round(statistics.median(runs), 3),
            "p95": round(runs[int(len(runs) * 0.95)], 3),
            "max": round(runs[-1], 3),
        },
    }
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
