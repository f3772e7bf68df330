"""The generated pages of docs/: printed from the code that they describe, never by hand.

`--write` writes them, `--check` fails when one differs and prints the command that mends it.
Of `life-of-a-run.md` only the diagram is printed, of `expressions.md` the list, of
`howto/kubernetes.md` the sizes; the words around them are written by people.
"""

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from pathlib import Path

from datarecs_application.alerts import ALERTS, Alert
from datarecs_application.metrics import CATALOGUE as METRICS
from datarecs_capture_worker.settings import Settings as CaptureWorker
from datarecs_cli.commands.errors import catalogue as error_codes
from datarecs_cli.stack.settings import StackSettings
from datarecs_core.comparison.expressions.entry import Entry
from datarecs_core.comparison.expressions.functions import ENTRIES
from datarecs_core.errors.base import ErrorCode
from datarecs_core.runs.transitions import state_diagram
from datarecs_core_api import openapi
from datarecs_core_api.settings import Settings as CoreApi
from datarecs_email_notifier.settings import Settings as EmailNotifier
from datarecs_events.catalogue import CATALOGUE as EVENTS
from datarecs_events.catalogue import SUBSCRIPTIONS, TOPICS, Subscription
from datarecs_events.event_types import PREFIX
from datarecs_iceberg_sink.settings import Settings as IcebergSink
from datarecs_postgres import docs as database
from datarecs_reconciliation_worker.settings import Settings as ReconciliationWorker
from datarecs_resource_controller.settings import Settings as ResourceController
from datarecs_run_controller.settings import Settings as RunController
from datarecs_runtime.settings import ServiceSettings, Setting, describe
from datarecs_webhook_service.settings import Settings as WebhookService

FOLDER = Path(__file__).resolve().parent
NOTE = "Written by `make docs`.\n"
FAMILIES = {
    "DR1": "Declarations",
    "DR2": "Connections",
    "DR3": "Runs",
    "DR4": "REST and its clients",
    "DR5": "Platform",
    "DR6": "Security",
    "DR7": "Sinks",
}
READERS: Mapping[str, type[ServiceSettings]] = {
    "core-api": CoreApi,
    "run-controller": RunController,
    "reconciliation-worker": ReconciliationWorker,
    "email-notifier": EmailNotifier,
    "resource-controller": ResourceController,
    "capture-worker": CaptureWorker,
    "iceberg-sink": IcebergSink,
    "webhook-service": WebhookService,
    "datarecs up": StackSettings,
}
# Of one run, as `tests/bench/run.py` measures it.
RUNS_PER_DAY = (1_000, 10_000, 100_000)
PEAK = 10
"""Most runs begin when a day is closed: the busiest minute against the mean."""
RUN_EVENTS, EVENT_KB = 14, 1.5
DATABASE_KB = 73
"""With indexes, history and sent events; it grows with stages and mails, not with rows."""
BLOBS_KB, DIFFERENCE_KB = 16, 0.3
RUN_S = 30
RUN_DAYS, TOPIC_DAYS, REPLICAS = 90, 14, 3
DIFFERENCES = 10_000
"""Stored differences of one run in ten."""
DAY_S, KB_PER_GB = 86_400, 1_000_000
CASES = FOLDER.parent / "tests" / "case_texts.toml"
AREAS = {
    "ARC": "Structure",
    "E": "Engine",
    "F": "Facts of a result",
    "GLO": "Words",
    "I": "Sink of Kafka into Iceberg",
    "K": "Packages and deployment",
    "L": "Life of a run",
    "M": "Mail",
    "P": "Comparison",
    "Q": "Captures and their queue",
    "R": "Resources",
    "S": "Storage",
    "STY": "Style",
    "U": "Command line, API and reports",
    "W": "Webhooks",
    "X": "Security",
}
LIST = re.compile(r"(?<=<!-- The list. -->\n).*", re.DOTALL)
SIZES = re.compile(r"(?<=<!-- Sizes. -->\n).*?(?=<!-- End of sizes. -->)", re.DOTALL)
DIAGRAM = re.compile(r"(?<=```mermaid\n).*?(?=```)", re.DOTALL)


def errors_page() -> str:
    """One heading per code, so that a link can name it."""
    head = (
        f"# Errors\n\n{NOTE}\n`datarecs errors CODE` prints one of these. Published codes keep "
        "their meaning and are never reused.\n"
    )
    parts = [head]
    for family, codes in groupby(error_codes().values(), lambda code: code.docs_id[:3]):
        parts.append(f"\n## {family} {FAMILIES[family]}\n")
        parts += [_error(code) for code in codes]
    return "".join(parts)


def _error(code: ErrorCode) -> str:
    entry = code.entry
    lines = [
        f"\n### {entry.docs_id} {code.name}\n",
        entry.meaning,
        f"- Likely causes: {entry.causes}",
        f"- What to do: {entry.remedy}",
    ]
    if entry.run_code is not None:
        lines.append(f"- The run is ERRORED with the code `{entry.run_code}`.")
    if entry.retryable:
        lines.append("- The cause may be temporary: try again.")
    return "\n".join(lines) + "\n"


def events_page() -> str:
    """Every event type, its topic, its writers and its readers."""
    types = _table(
        ("type", "layer", "written by", "topic", "meaning"),
        (
            (
                f"`{one.type}`",
                one.kind,
                ", ".join(sorted(one.emitters)),
                "HTTP only" if one.topic is None else f"`{one.topic}`",
                _first_paragraph(one.event_class),
            )
            for one in EVENTS
        ),
    )
    topics = _table(
        ("topic", "partitions", "kept"),
        ((f"`{one.name}`", str(one.partitions), f"{one.retention.days} days") for one in TOPICS),
    )
    subscriptions = _table(
        ("service", "topic", "reads"),
        ((one.service, f"`{one.topic}`", _received_events(one)) for one in SUBSCRIPTIONS),
    )
    return (
        f"# Events\n\n{NOTE}\nEvery event is a CloudEvent 1.0. Schemas, examples and the rules of "
        f"change: [events-schema](../events-schema/README.md).\n\n## Types\n\n{types}\n"
        f"## Topics\n\n{topics}\n## Who reads what\n\nBroker rights repeat this table: a service "
        f"cannot read what is not here.\n\n{subscriptions}"
    )


def _received_events(subscription: Subscription) -> str:
    types = subscription.types
    if types is None:
        return "everything"
    return ", ".join(f"`{one.removeprefix(PREFIX)}`" for one in sorted(types))


def _first_paragraph(documented: type[object]) -> str:
    return (documented.__doc__ or "").strip().split("\n\n")[0]


def metrics_page() -> str:
    """Every metric, by name."""
    metrics = _table(
        ("name", "kind", "labels", "meaning"),
        (
            (f"`{one.full_name}`", one.kind, ", ".join(one.labels), one.meaning)
            for one in sorted(METRICS.values(), key=lambda one: one.name)
        ),
    )
    alerts = _table(
        ("alert", "severity", "when", "means", "what to do"),
        ((f"`{one.title}`", one.severity, _when(one), one.means, one.remedy) for one in ALERTS),
    )
    return (
        f"# Metrics\n\n{NOTE}\nEach service serves its own at `/metrics` of its side port, in "
        f"Prometheus' text format. Labels come from closed sets; no id is ever one.\n\n{metrics}"
        "\n## Alerts\n\nAs Prometheus rules: [alerts.yaml](alerts.yaml). `page` needs action at "
        f"once, `ticket` on the next working day.\n\n{alerts}"
    )


def _when(alert: Alert) -> str:
    patience = f", for {_prometheus(alert.lasting)}" if alert.lasting else ""
    return f"`{alert.expression}`{patience}"


def alert_rules() -> str:
    """The alerts as a file of Prometheus rules."""
    lines = [f"# {NOTE.strip()}", "groups:", "  - name: datarecs", "    rules:"]
    for one in ALERTS:
        lines += [f"      - alert: {one.title}", f"        expr: {json.dumps(one.expression)}"]
        if one.lasting:
            lines.append(f"        for: {_prometheus(one.lasting)}")
        lines += [
            "        labels:",
            f"          severity: {one.severity}",
            "        annotations:",
            f"          summary: {json.dumps(one.means)}",
            f"          description: {json.dumps(one.remedy)}",
        ]
    return "\n".join(lines) + "\n"


def _prometheus(duration: timedelta) -> str:
    return f"{int(duration.total_seconds())}s"


def settings_page() -> str:
    """Every setting under the name of its section, with the processes that read it."""
    head = (
        f"# Settings\n\n{NOTE}\n"
        "Names are environment variables. The first of these that has a value counts: a flag, the "
        "environment, `datarecs.toml` in the working directory, `~/.config/datarecs/config.toml`, "
        "the default. A secret may be in a file instead: `<NAME>_FILE` is the path of the file. A "
        "process does not start if a name that begins with `DATARECS_` is not in this list.\n"
    )
    parts, readers = [head], _readers()
    for section, settings in groupby(describe(), _section):
        rows = _table(
            ("name", "default", "meaning", "read by"),
            (
                (
                    f"`{one.name}`" + (" (secret)" if one.secret else ""),
                    f"`{one.default}`" if one.default else "",
                    one.meaning,
                    _named(readers.get(one.name, [])),
                )
                for one in settings
            ),
        )
        parts.append(f"\n## {section}\n\n{rows}")
    return "".join(parts)


def _readers() -> dict[str, list[str]]:
    readers: dict[str, list[str]] = {}
    for reader, settings_class in READERS.items():
        for setting in describe(settings_class):
            readers.setdefault(setting.name, []).append(reader)
    return readers


def _named(readers: list[str]) -> str:
    if len(readers) == len(READERS):
        return "all"
    return "every service" if readers == list(READERS)[:-1] else ", ".join(readers)


def _section(setting: Setting) -> str:
    first, separator, _ = setting.name.removeprefix("DATARECS_").partition("__")
    return first.lower() if separator else "every service"


def openapi_document() -> str:
    return json.dumps(openapi.document(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def life_page() -> str:
    """The page as it stands, with the diagram of today's transitions."""
    written = (FOLDER / "life-of-a-run.md").read_text(encoding="utf-8")
    return DIAGRAM.sub(lambda _: state_diagram(), written)


@dataclass(frozen=True, slots=True)
class Need:
    """What so many runs per day need."""

    runs_per_day: int

    @property
    def workers(self) -> float:
        """One run at a time each: three times the mean, since the queue smooths the peak."""
        return max(1, 3 * self.runs_per_day * RUN_S / DAY_S)

    @property
    def runs_per_s(self) -> float:
        """In the busiest minute."""
        return PEAK * self.runs_per_day / DAY_S

    @property
    def database_gb(self) -> float:
        return self.runs_per_day * DATABASE_KB * RUN_DAYS / KB_PER_GB

    @property
    def blobs_gb(self) -> float:
        of_a_run = BLOBS_KB + DIFFERENCES * DIFFERENCE_KB / 10
        return self.runs_per_day * of_a_run * RUN_DAYS / KB_PER_GB

    @property
    def kafka_gb(self) -> float:
        return self.runs_per_day * RUN_EVENTS * EVENT_KB * TOPIC_DAYS * REPLICAS / KB_PER_GB


def size_rows() -> Iterator[tuple[str, ...]]:
    """Title and one cell per rate, in two digits."""
    needs = [Need(rate) for rate in RUNS_PER_DAY]
    yield "workers", *(f"{-(-need.workers // 1):,.0f}" for need in needs)
    yield "runs/s in the busiest minute", *(_two(need.runs_per_s) for need in needs)
    yield "events/s then", *(_two(need.runs_per_s * RUN_EVENTS) for need in needs)
    for title, sizes in (
        (f"PostgreSQL, runs of {RUN_DAYS} days", [need.database_gb for need in needs]),
        (f"object store, {RUN_DAYS} days", [need.blobs_gb for need in needs]),
        (f"Kafka, {TOPIC_DAYS} days, {REPLICAS} replicas", [need.kafka_gb for need in needs]),
    ):
        yield title, *(f"{_two(size)} GB" for size in sizes)


def _two(value: float) -> str:
    digits = f"{float(f'{value:.2g}'):,.2f}".rstrip("0")
    return digits.rstrip(".")


def kubernetes_page() -> str:
    """The page as it stands, with the table of sizes recomputed."""
    written = (FOLDER / "howto" / "kubernetes.md").read_text(encoding="utf-8")
    head = ("per day", *(f"{rate:,} runs" for rate in RUNS_PER_DAY))
    return SIZES.sub(lambda _: _table(head, size_rows()), written)


def expressions_page() -> str:
    """The page as it stands, with the allow-list of today, group by group."""
    written = (FOLDER / "expressions.md").read_text(encoding="utf-8")
    parts = []
    for group, entries in groupby(ENTRIES.values(), lambda entry: entry.group):
        rows = ((f"`{one.syntax}`", one.meaning, _also(one), f"`{one.example}`") for one in entries)
        table = _table(("written", "means", "other names", "example"), rows)
        parts.append(f"\n## {group}\n\n{table}")
    return LIST.sub(lambda _: "".join(parts), written)


def _also(entry: Entry) -> str:
    return ", ".join(f"`{name.upper()}`" for name in entry.aliases)


def cases_page() -> str:
    """Every acceptance id and what it requires, an area a section."""
    cases = tomllib.loads(CASES.read_text(encoding="utf-8"))
    areas = groupby(cases.items(), key=lambda case: case[0].rstrip("0123456789").rstrip("-"))
    head = (
        "# Acceptance cases\n\n"
        'What the ids in tests (`@pytest.mark.case("W01")`) ask for: an action, an arrow, '
        f"what must come of it. {NOTE}"
        "`make cases` lists the ids of this release that have no test.\n"
    )
    parts = (f"\n## {AREAS[area]}\n\n{_table(('id', 'case'), rows)}" for area, rows in areas)
    return head + "".join(parts)


PAGES: Mapping[str, Callable[[], str]] = {
    "expressions.md": expressions_page,
    "errors.md": errors_page,
    "events.md": events_page,
    "metrics.md": metrics_page,
    "alerts.yaml": alert_rules,
    "settings.md": settings_page,
    "database.md": database.page,
    "openapi.json": openapi_document,
    "life-of-a-run.md": life_page,
    "howto/kubernetes.md": kubernetes_page,
    "spec/cases.md": cases_page,
}


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in _cells(head, rows))


def _cells(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[list[str]]:
    for row in (head, ["---"] * len(head), *rows):
        yield [" ".join(cell.split()).replace("|", "\\|") for cell in row]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or compare every page; 1 when one differs."""
    parser = argparse.ArgumentParser(prog="python docs/generate.py", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="write the pages")
    what.add_argument("--check", action="store_true", help="fail when a page differs")
    options = parser.parse_args(arguments)
    texts = {name: page() for name, page in PAGES.items()}
    stale = [name for name, text in texts.items() if not _stands(FOLDER / name, text)]
    if options.write:
        for name in stale:
            (FOLDER / name).write_text(texts[name], encoding="utf-8")
        return 0
    if stale:
        sys.stderr.write(f"docs/ is not what the code says: {', '.join(stale)}; run `make docs`\n")
    return 1 if stale else 0


def _stands(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    raise SystemExit(main())
