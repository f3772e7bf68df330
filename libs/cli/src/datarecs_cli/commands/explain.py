"""`datarecs explain`: what differences have in common, or why one key differs."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Output, UsageFault, current

if TYPE_CHECKING:
    from datarecs_core.comparison.hints import Hint
    from datarecs_core.comparison.results import Difference
    from datarecs_core.comparison.sealed import SealedRun, SealedStage

Found = list[tuple[str, list["Hint"]]]


def explain(
    run: Annotated[Path, typer.Argument(metavar="FOLDER", help="what `compare` wrote")],
    key: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME=VALUE", help="a key; a bare value where one column is the key"
        ),
    ] = None,
    *,
    stage: Annotated[str | None, typer.Option(help="of this stage alone")] = None,
) -> ExitCode:
    """Likely causes by rule with evidence; with a key, its values before and after the rules."""
    from datarecs_cli.evidence import stored_run

    invocation = current()
    if invocation.output not in (None, Output.TABLE, Output.TEXT, Output.JSON):
        raise UsageFault(f"-o {invocation.output} is not a form of this command")
    found, folder = stored_run(run)
    stages = [each for each in found.stages if each.results and stage in (None, each.name)]
    if not stages:
        raise UsageFault(f"--stage {stage}: the run executed no such stage")
    if key:
        return _print_key(found, folder, stages, key)
    _print_hints([(each.name, _hints(found, folder, each)) for each in stages])
    return ExitCode.DONE


def _rows(run: "SealedRun", folder: Path, stage: "SealedStage") -> "Iterator[Difference]":
    from datarecs_reports.stored_rows import parts_of, read_rows

    return read_rows(parts_of(folder, stage.name), stage, run.sources, masked=True)


def _hints(run: "SealedRun", folder: Path, stage: "SealedStage") -> "list[Hint]":
    from datarecs_core.comparison.hints import hints

    return list(
        hints(
            _rows(run, folder, stage),
            reference=run.sources[stage.reference],
            sources=run.sources,
            dimensions=[name for name, _ in stage.dimensions],
        )
    )


def _print_hints(found: Found) -> None:
    from datarecs_cli.output import cell, print_json
    from datarecs_reports.figures import count, percent

    if current().is_json:
        stages = [
            {"stage": stage, "hints": [_members(hint) for hint in own]} for stage, own in found
        ]
        print_json("explain", {"stages": stages})
        return
    for stage, own in found:
        for hint in own:
            share = f"{count(hint.explained)} of {count(hint.of)} breaks"
            print(f"{cell(stage)} {cell(hint.measure)}: {cell(hint.what)}")
            print(f"  {hint.rule}, {share} ({percent(hint.explained, hint.of)})")
            print(f"  such as  {' '.join(hint.examples)}")
            print(f"  declare  {cell(hint.declare)}")
    if not any(own for _, own in found):
        current().say("no pattern explains half of a measure's breaks, or there are fewer than 5")


def _members(hint: "Hint") -> dict[str, object]:
    return {
        "rule": hint.rule,
        "measure": hint.measure,
        "source": hint.source,
        "what": hint.what,
        "explained": hint.explained,
        "of": hint.of,
        "examples": list(hint.examples),
        "declare": hint.declare,
    }


def _print_key(
    run: "SealedRun", folder: Path, stages: "Sequence[SealedStage]", key: Sequence[str]
) -> ExitCode:
    from datarecs_cli.output import cell, print_json

    found: list[tuple[SealedStage, Difference]] = []
    for stage in stages:
        wanted = _key_of([name for name, _ in stage.dimensions], key)
        if wanted is not None:
            found += [(stage, row) for row in _rows(run, folder, stage) if row.key == wanted]
    if current().is_json:
        print_json("explain", {"differences": [_difference(row) for _, row in found]})
        return ExitCode.DONE
    for stage, row in found:
        print(f"{cell(stage.name)} {cell(row.measure)}: {row.difference_class}, {row.outcome}")
        for line in _lines(run, row):
            print(f"  {line}")
    if not found:
        asked = " ".join(map(cell, key))
        current().say(f"no difference of {asked} is stored: equal everywhere, or in no source")
    return ExitCode.DONE


def _key_of(dimensions: Sequence[str], given: Sequence[str]) -> tuple[str, ...] | None:
    """The key in the order of a stage's dimensions; None when it has others."""
    if len(dimensions) == len(given) == 1 and not given[0].startswith(f"{dimensions[0]}="):
        return (given[0],)
    named = dict(part.partition("=")[::2] for part in given)
    return tuple(named[name] for name in dimensions) if set(named) == set(dimensions) else None


def _lines(run: "SealedRun", row: "Difference") -> Iterator[str]:
    from datarecs_cli.output import cell
    from datarecs_core.documents import decimal_text
    from datarecs_reports.words import presence_words

    values, raw, deltas = dict(row.values), dict(row.raw_values), dict(row.deltas)
    yield presence_words(row.presence, run.sources)
    for source in run.sources:
        if source not in values:
            continue
        shown = "NULL" if values[source] is None else cell(values[source])
        before = f"  (as read {cell(raw[source] or 'NULL')})" if source in raw else ""
        apart = f"  delta {decimal_text(deltas[source])}" if source in deltas else ""
        yield f"{cell(source)}  {shown}{before}{apart}"
    if row.odd_one_out:
        yield f"odd one out  {cell(row.odd_one_out)}"
    yield f"break  {row.break_id}"


def _difference(row: "Difference") -> dict[str, object]:
    from datarecs_core.documents import decimal_text

    return {
        "break_id": row.break_id,
        "stage": row.stage,
        "measure": row.measure,
        "class": row.difference_class,
        "outcome": row.outcome,
        "key": list(row.key),
        "values": dict(row.values),
        "raw_values": dict(row.raw_values),
        "deltas": {name: decimal_text(delta) for name, delta in row.deltas},
        "odd_one_out": row.odd_one_out,
    }
