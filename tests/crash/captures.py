"""Captures 2,000 groups of files while everything is killed, and prints the ledger.

`make crash` runs it. Exit code 1 when the ledger has a fault.
"""

import argparse
import shutil
import sys
from pathlib import Path

from datarecs_testing.builders import A_TENANT
from datarecs_testing.crashes.capture_storm import CaptureStorm, StormPlan, shown, write_line
from datarecs_testing.crashes.serving import temporary_database

GROUPS_BY_TABLE = 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.captures", description=__doc__)
    parser.add_argument("--groups", type=int, default=2000, help="at least 100")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--logs", type=Path, help="folder to which logs are copied")
    options = parser.parse_args()
    plan = StormPlan(
        tables=options.groups // GROUPS_BY_TABLE,
        groups_by_table=GROUPS_BY_TABLE,
        seed=options.seed,
        limit_s=2 * options.groups,
    )
    with temporary_database() as (folder, server, database):
        database.add_tenant("a", A_TENANT)
        if server.process is None:
            raise RuntimeError("the server was not started by this program")
        house = folder / "captures"
        house.mkdir()
        try:
            report = CaptureStorm(house, database, server.process, plan, write_line).run()
        finally:
            if options.logs is not None:
                options.logs.mkdir(parents=True, exist_ok=True)
                for log in house.glob("*.log"):
                    shutil.copy(log, options.logs)
    sys.stdout.write(shown(report))
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    raise SystemExit(main())
