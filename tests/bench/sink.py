"""Figures of the sink beside the Java connector: same broker, topic, catalog, interval and tasks.

Both read the same topic from its beginning, one after the other, and the last snapshot of each must
have every record exactly once. Ratios are of the same run; on another machine only they are alike.
"""

import argparse
import json
import os
import sys
from collections.abc import Collection, Mapping
from importlib.metadata import version

from datarecs_cli.stack.failures import PlatformError
from datarecs_testing.measured_servers import servers
from tests.bench import sink_jars, sink_java, sink_ours
from tests.bench.sink_figures import SideFailedError, observe, ratios
from tests.bench.sink_load import INTERVAL_S, PARTITIONS, RECORD_BYTES, TASKS, prepare

RECORDS = 1_000_000
JAVA, OURS = sink_java.NAME, sink_ours.NAME
"""In the order of the runs."""


def measure(records: int, sides: Collection[str]) -> Mapping[str, object]:
    """The figures of each side, in turn."""
    load_before = os.getloadavg()[0]
    results: dict[str, Mapping[str, object]] = {}
    with servers(kafka=True) as running:
        if running.broker is None:
            raise RuntimeError("no broker was started")
        load = prepare(running.broker, running.postgres, running.folder, records)
        if JAVA in sides:
            table = load.table(sink_java.TABLE)
            with sink_java.running(load) as side:
                results[JAVA] = observe(side, load, table)
        if OURS in sides:
            table = load.table(sink_ours.TABLE)
            with sink_ours.running(load, running.database()) as side:
                results[OURS] = observe(side, load, table)
    return {
        "load_before_and_after": [round(load_before, 1), round(os.getloadavg()[0], 1)],
        "sides": results,
        "ratios": ratios(results[OURS], results[JAVA]) if len(results) > 1 else None,
    }


def main() -> int:
    """Print one JSON result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--sides", nargs="+", choices=[JAVA, OURS], default=[JAVA, OURS])
    options = parser.parse_args()
    about: dict[str, object] = {
        "records": options.records,
        "record_bytes": RECORD_BYTES,
        "partitions": PARTITIONS,
        "tasks": TASKS,
        "commit_interval_s": INTERVAL_S,
        "cores": os.cpu_count(),
        "connector": sink_jars.read_lock().version,
        "pyiceberg": version("pyiceberg"),
        "kafka_python": version("kafka-python"),
    }
    try:
        report = {**about, **measure(options.records, options.sides)}
    except (PlatformError, SideFailedError) as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
