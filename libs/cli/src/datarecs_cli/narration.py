"""Lines about the progress of a run.

Two forms of the same events: for logs every event is a plain line; for a terminal a finished step
is a line, and the current step is one moving line. Source: spec experience 3.4.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from datarecs_cli.follow import Dropped, Happened, Seen, Snapshot
from datarecs_cli.output import Words, amount, cell
from datarecs_events import event_types

Data = Mapping[str, object]
PREFIX = f"{event_types.PREFIX}reconciliation."
_MOVING = frozenset(
    {
        "run.triggered",
        "run.queued",
        "run.extraction.started",
        "run.comparison.started",
        "run.comparison.completed",
        "run.stage.started",
        "run.rows_processed",
        "run.completed",
        "run.finalised",
        "run.cancelled",
    }
)
"""Events without a line on a terminal: shown only in the moving line, or in the verdict."""
_VERBS = {
    "extraction.started": "reading",
    "extraction.completed": "read",
    "comparison.started": "comparing",
    "comparison.completed": "compared",
    "rows_processed": "comparing",
    "stage.started": "beginning",
    "stage.completed": "stage",
}
"""Words on a terminal instead of the event's name."""


class Narrator:
    """Writes the lines for the events of one run."""

    def __init__(self, words: Words, *, sources: tuple[str, ...] = ()) -> None:
        """`sources` are the names in the order of the job; without them sources are numbered."""
        self._words, self._sources = words, sources
        self._started: dict[int, datetime] = {}
        self.status = "TRIGGERED"
        self.doing = ""
        """The current step: it has started and not ended."""

    def lines(self, seen: Seen) -> list[str]:
        """For a log: one line per event."""
        match seen:
            case Happened(entry=entry):
                kind, text = self._describe(entry)
                at = str(entry["time"])[11:19]
                return [f"{at} {kind:<24} {text}".rstrip()]
            case _:
                return self._beside(seen)

    def finished(self, seen: Seen) -> list[str]:
        """For a terminal: lines of steps that ended or failed."""
        match seen:
            case Happened(entry=entry):
                kind, text = self._describe(entry)
                short = kind.removeprefix("run.")
                verb = _VERBS.get(short, short)
                if kind in _MOVING:
                    self.doing = f"{verb} {text}".strip()
                    return []
                return [f"  {verb:<8} {text}".rstrip()]
            case _:
                return self._beside(seen)

    def _beside(self, seen: Seen) -> list[str]:
        match seen:
            case Snapshot(run=run):
                self.status = str(run["status"])
                return []
            case Dropped(reason=reason):
                return [f"  connection lost ({cell(reason)}); reconnecting"]
            case _:
                return []

    def _describe(self, entry: Data) -> tuple[str, str]:
        kind = cell(entry.get("type")).removeprefix(PREFIX)
        data = entry.get("data")
        moment = datetime.fromisoformat(str(entry["time"]))
        members: Data = data if isinstance(data, Mapping) else {}
        return kind, self._words_of(kind, members, moment)

    def _words_of(self, kind: str, data: Data, moment: datetime) -> str:
        what = kind.removeprefix("run.")
        if what.startswith("extraction."):
            return self._extraction(what, data, moment)
        dot = f" {self._words.dot} "
        match what:
            case "comparison.started":
                return f"{_stage(data)} {cell(data.get('input_source_count'))} sources"
            case "comparison.completed":
                return f"{_stage(data)} {dot.join(_counts(data))}"
            case "rows_processed":
                rows, mismatches = amount(data.get("row_count")), amount(data.get("mismatch_count"))
                return f"{_stage(data)} {rows} rows{dot}{mismatches} mismatches"
            case "stage.completed":
                result = cell(data.get("result"))
                return f"{_stage(data)} {self._words.sign(result)} {result}"
            case _:
                return _general(data)

    def _extraction(self, what: str, data: Data, moment: datetime) -> str:
        match what:
            case "extraction.started":
                self._started[_index(data)] = moment
                return f"{self._source(data)} ({cell(data.get('connection_type'))})"
            case "extraction.completed":
                return self._extracted(data, moment)
            case _:
                return f"{self._source(data)}: {_error(data)}"

    def _source(self, data: Data) -> str:
        index = _index(data)
        if index < len(self._sources):
            return cell(self._sources[index])
        return f"source {index + 1}"

    def _extracted(self, data: Data, moment: datetime) -> str:
        rows = amount(data.get("rows_extracted"))
        text = f"{self._source(data)} {rows} rows"
        began = self._started.get(_index(data))
        if began is None:
            return text
        took = max((moment - began) / timedelta(seconds=1), 0.001)
        rate = int(str(data.get("rows_extracted", 0))) / took
        dot = self._words.dot
        return f"{text} {dot} {rate:,.0f} rows/s {dot} {took:.1f} s"


def _index(data: Data) -> int:
    index = data.get("extraction_index")
    return index if isinstance(index, int) else 0


def _stage(data: Data) -> str:
    return cell(data.get("stage_name"))


def _counts(data: Data) -> list[str]:
    joined = data.get("join_stats")
    matched = joined.get("matched_groups") if isinstance(joined, Mapping) else None
    return [
        f"{amount(matched)} in all",
        f"{amount(data.get('rows_matched'))} matched",
        f"{amount(data.get('rows_unmatched'))} unmatched",
    ]


def _error(data: Data) -> str:
    error = data.get("error")
    if not isinstance(error, Mapping):
        return ""
    finer = f"/{error['detail_code']}" if error.get("detail_code") else ""
    return cell(f"{error.get('code')}{finer} {error.get('message', '')}")


def _general(data: Data) -> str:
    """The well-known members that are present."""
    parts = [_stage(data)] if "stage_name" in data else []
    parts += [cell(data[name]) for name in ("result", "reason") if name in data]
    parts += [f"by {cell(data[name])}" for name in ("triggered_by", "cancelled_by") if name in data]
    parts += [_error(data)] if "error" in data else []
    return " ".join(parts)
