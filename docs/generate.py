"""The generated pages of docs/: printed from the code that they describe, never by hand.

`--write` writes them, `--check` fails when one differs and prints the command that mends it.
"""

import json
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from datarecs_application.metrics import CATALOGUE as METRICS
from datarecs_core import errors
from datarecs_core.errors.base import ErrorCode
from datarecs_events.catalogue import CATALOGUE as EVENTS
from datarecs_runtime import settings

FOLDER = Path(__file__).resolve().parent
NOTE = "<!-- Written by `make docs`. -->\n"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in escaped) + "\n"


def error_codes() -> list[ErrorCode]:
    """Every code of every family, by docs id."""
    found: dict[str, ErrorCode] = {}
    for module in iter_modules(errors.__path__, f"{errors.__name__}."):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, ErrorCode):
                found |= {code.docs_id: code for code in value}
    return [found[docs_id] for docs_id in sorted(found)]


def errors_page() -> str:
    rows = [
        (
            f"{code.docs_id} `{code.name}`",
            code.entry.meaning,
            code.entry.causes,
            code.entry.remedy,
            "" if code.entry.run_code is None else f"`{code.entry.run_code}`",
            "yes" if code.entry.retryable else "",
        )
        for code in error_codes()
    ]
    head = ("code", "means", "likely causes", "what to do", "run code", "worth a retry")
    return f"# Errors\n\n{NOTE}\n`datarecs errors CODE` prints one entry.\n\n{_table(head, rows)}"


def events_page() -> str:
    rows = [
        (
            f"`{entry.type}`",
            entry.kind,
            ", ".join(sorted(entry.emitters)),
            "HTTP only" if entry.topic is None else f"`{entry.topic}`",
            (entry.event_class.__doc__ or "").strip().splitlines()[0],
        )
        for entry in EVENTS
    ]
    head = ("type", "layer", "written by", "topic", "says")
    return (
        f"# Events\n\n{NOTE}\nSchemas and examples: [events-schema](../events-schema/README.md)."
        f"\n\n{_table(head, rows)}"
    )


def metrics_page() -> str:
    rows = [
        (f"`{one.full_name}`", one.kind, ", ".join(one.labels), one.meaning)
        for one in sorted(METRICS.values(), key=lambda one: one.name)
    ]
    head = ("name", "kind", "labels", "meaning")
    return f"# Metrics\n\n{NOTE}\nServed by each service on its side port.\n\n{_table(head, rows)}"


def settings_page() -> str:
    rows = [tuple(f"`{row.name}`" if cell == row.name else cell for cell in row.cells())
            for row in settings.describe()]
    head = ("name", "default", "meaning")
    return (
        f"# Settings\n\n{NOTE}\nEnvironment names; a secret also as `<NAME>_FILE`."
        f"\n\n{_table(head, rows)}"
    )


def database_page() -> str:
    return str(import_module("datarecs_postgres.docs").page())


def openapi_document() -> str:
    document = import_module("datarecs_core_api.openapi").document()
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def life_page() -> str:
    return str(import_module("datarecs_core.runs.diagram").page())


PAGES: Mapping[str, Callable[[], str]] = {
    "errors.md": errors_page,
    "events.md": events_page,
    "metrics.md": metrics_page,
    "settings.md": settings_page,
    "database.md": database_page,
    "openapi.json": openapi_document,
    "life-of-a-run.md": life_page,
}


def main(arguments: list[str]) -> int:
    """Write or compare every page; 1 when one differs."""
    stale = []
    for name, page in PAGES.items():
        path, text = FOLDER / name, page()
        if arguments == ["--write"]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
    if stale:
        sys.stderr.write(f"docs/ is not what the code says: {', '.join(stale)}; run `make docs`\n")
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
