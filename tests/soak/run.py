"""Runs the soak and prints its ledger; `--write` stores it as `docs/soak.md`.

`make soak RUNS=1000 MINUTES=15 SEED=1`. Exit code 1 when the ledger has a fault.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from datarecs_cli.stack import classes
from datarecs_runtime.clock import SystemClock
from datarecs_testing.crashes.house import crash_house
from datarecs_testing.crashes.serving import Servers, temporary_servers
from datarecs_testing.crashes.soak import Soak, SoakPlan, SoakReport

PAGE = Path(__file__).resolve().parents[2] / "docs/soak.md"
SLOTS, LEASE = 2, "20s"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/soak/run.py", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=15, help="of kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-spark", action="store_true", help="every run by the oracle")
    parser.add_argument("--write", action="store_true", help="keep the result as docs/soak.md")
    parser.add_argument("--logs", type=Path, help="folder to which logs are moved")
    options = parser.parse_args()
    plan = SoakPlan(
        runs=options.runs, minutes=options.minutes, seed=options.seed, on_spark=not options.no_spark
    )
    say(f"seed {plan.seed}: {plan.runs} runs, {plan.minutes:g} minutes of kills")
    with temporary_servers() as servers:
        try:
            report = soaked(servers, plan)
        finally:
            if options.logs is not None:
                copy_logs(servers.folder, options.logs)
    page = shown(report)
    sys.stdout.write(page)
    if options.write:
        PAGE.write_text(page, encoding="utf-8")
    return 0 if report.verdict.is_clean else 1


def soaked(servers: Servers, plan: SoakPlan) -> SoakReport:
    with crash_house(
        servers.folder / "house",
        servers.database,
        servers.broker,
        java=spark_settings(servers) if plan.on_spark else {},
        moves_time=False,
        slots=SLOTS,
        lease=LEASE,
    ) as house:
        return Soak(house, servers, plan, say).run()


def spark_settings(servers: Servers) -> Mapping[str, str]:
    java = servers.programs.java
    return {
        "JAVA_HOME": str(java.home),
        "DATARECS_JAVA__HOME": str(java.home),
        "DATARECS_JAVA__OPTIONS": classes.of_spark(java),
    }


def copy_logs(folder: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for log in (*folder.glob("*.log"), *folder.glob("house/*.log")):
        (target / log.name).write_bytes(log.read_bytes())


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def shown(report: SoakReport) -> str:
    """The page, from the verdict down to single numbers."""
    plan, verdict = report.plan, report.verdict
    said = "clean" if verdict.is_clean else f"{len(verdict.faults)} faults"
    spark = "every 20th run by Spark" if plan.on_spark else "no run by Spark"
    summary = (
        f"{plan.runs} runs were asked for while every service, the worker's child, the broker and"
        f" the database were killed at random for {plan.minutes:g} minutes (seed {plan.seed},"
        f" {spark}, {SLOTS} slots). After {report.minutes:.1f} minutes everything was at rest."
        f" {SystemClock().now():%d %B %Y}, {os.cpu_count()} cores. Repeat it with `make soak`."
    )
    lines = [
        "# The last soak",
        "",
        f"The ledger is {said}.",
        "",
        summary,
        "",
        *table("Ledger", verdict.counts),
        *table("Outcomes of runs", report.outcomes),
        *table("Kills", report.kills),
        *table("Processes that ended by themselves", report.exits),
        *(f"- {fault}" for fault in verdict.faults),
    ]
    return "\n".join(lines).rstrip() + "\n"


def table(title: str, rows: Mapping[str, int]) -> list[str]:
    if not rows:
        return [f"## {title}", "", "None.", ""]
    body = [f"| {name} | {count:,} |" for name, count in rows.items()]
    return [f"## {title}", "", "| what | count |", "|---|---|", *body, ""]


if __name__ == "__main__":
    raise SystemExit(main())
