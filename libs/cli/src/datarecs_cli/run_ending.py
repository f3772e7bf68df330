"""The output at the end of a run: fetched once, printed in the requested format.

Shared by `run`, `watch`, `cancel --wait` and `demo`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from datarecs_cli.client import Api, ApiRequest, Json, path_of
from datarecs_cli.declared_files import annotation_text
from datarecs_cli.exit_codes import ExitCode, Gate, exit_code_of_run
from datarecs_cli.invocation import Invocation, Output
from datarecs_cli.output import Words, print_json
from datarecs_cli.refusals import RefusedError
from datarecs_cli.saving import save
from datarecs_cli.verdict_view import ending_lines, verdict_lines, warning_lines
from datarecs_reports.decoding import run_facts
from datarecs_reports.model import RunFacts

_NOT_FOR_US = frozenset({403, 404})
"""Statuses of samples that the key may not read, and of a document that retention removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    run: Json
    document: Json | None
    """The run.json; None if the run has no verdict or the document was removed."""
    largest: Json | None
    """The largest difference between values; None if the key may not read it."""

    @property
    def run_id(self) -> str:
        return str(self.run["run_id"])

    @property
    def outcome(self) -> str:
        """The verdict, or the status of a run without a verdict."""
        return str(self.run.get("result") or self.run["status"])

    @property
    def facts(self) -> RunFacts | None:
        return None if self.document is None else run_facts(self.document)

    def exit_code(self, gate: Gate | None) -> ExitCode:
        summary = self.run.get("summary")
        accepted = summary.get("acceptance") if isinstance(summary, Mapping) else None
        result = self.run.get("result")
        return exit_code_of_run(
            str(self.run["status"]),
            None if result is None else str(result),
            acceptance=None if accepted is None else str(accepted),
            gate=gate,
        )


def ending_of(api: Api, run: Json) -> Ending:
    """Fetch the data to print about a terminal run."""
    run_id = str(run["run_id"])
    document = largest = None
    if run.get("result") is not None:
        document = _if_allowed(api, "runs", run_id, "report", format="json")
    if run.get("result") == "UNMATCHED":
        page = _if_allowed(api, "runs", run_id, "mismatches", limit="1")
        items = page.get("items") if page else None
        first = items[0] if isinstance(items, list) and items else None
        largest = first if isinstance(first, Mapping) and first.get("deltas") else None
    return Ending(run=run, document=document, largest=largest)


def _if_allowed(api: Api, *parts: str, **params: str) -> Json | None:
    try:
        return api.get(*parts, **params)
    except RefusedError as refused:
        if refused.status in _NOT_FOR_US:
            return None
        raise


def ending_text(ending: Ending, words: Words, invocation: Invocation) -> list[str]:
    """The lines for people."""
    facts = ending.facts
    if facts is not None:
        return verdict_lines(facts, ending.largest, words, invocation)
    return ending_lines(ending.run, words, invocation)


def print_ending(command: str, ending: Ending, words: Words, invocation: Invocation) -> None:
    """Print the data on stdout and the next commands on stderr."""
    lines = ending_text(ending, words, invocation)
    match invocation.output:
        case Output.JSON | Output.JSONL:
            proof = (ending.document or {}).get("proof")
            stages = proof.get("stages") if isinstance(proof, Mapping) else None
            print_json(command, {"run": ending.run, "stages": stages or []})
        case Output.NAME:
            print(ending.run_id)
        case Output.GITHUB:
            level = "notice" if ending.outcome == "MATCHED" else "error"
            job = annotation_text(f"{ending.run.get('job')} {ending.outcome}")
            print(f"::{level} title={job}::{annotation_text(chr(10).join(lines))}")
        case _:
            print("\n".join(lines))
    warnings = warning_lines(ending.facts) if ending.facts is not None else []
    for line in (*warnings, *_next_steps(ending)):
        invocation.say(line)


def _next_steps(ending: Ending) -> list[str]:
    run_id = ending.run_id
    if ending.outcome == "UNMATCHED":
        return [f"next     datarecs diff {run_id}", f"         datarecs report {run_id} --open"]
    if ending.outcome == "MATCHED":
        return [f"report   datarecs report {run_id} --open"]
    return [f"run      {run_id}"]


def save_report(api: Api, run_id: str, target: Path, *, form: str = "html") -> None:
    """Write the stored report of a terminal run to a file."""
    request = ApiRequest(
        method="GET", path=path_of("runs", run_id, "report"), params={"format": form}
    )
    save(target, api.send(request).content)
