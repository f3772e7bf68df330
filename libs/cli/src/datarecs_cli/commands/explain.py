"""`datarecs explain`: common causes of differences, or the values of one key."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Output, UsageFault, current

if TYPE_CHECKING:
    from datarecs_core.comparison.insight.hints import Hint
    from datarecs_core.comparison.insight.key_lookup import Key
    from datarecs_core.comparison.proof.sealed import SealedRun, SealedStage
    from datarecs_core.comparison.results.results import Difference

StageHints = list[tuple[str, list["Hint"]]]
Meant = tuple["SealedStage", Iterable["Difference"], tuple["Key", ...]]


def explain(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN|FOLDER", help="a run, or a folder of results from `compare`"),
    ],
    key: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME=VALUE",
            help="the columns of a key; a value alone if the key has one column",
        ),
    ] = None,
    *,
    stage: Annotated[str | None, typer.Option(help="only this stage")] = None,
) -> ExitCode:
    """Show likely causes of the differences; with a key, its values before and after the rules."""
    from datarecs_cli.evidence import stored_run

    invocation = current()
    if invocation.output not in (None, Output.TABLE, Output.TEXT, Output.JSON):
        raise UsageFault(f"-o {invocation.output} is not a format of this command")
    if not Path(run).exists() and "/" not in run:
        return _of_server(run, key or [], stage)
    sealed, folder = stored_run(Path(run))
    stages = [each for each in sealed.stages if each.results and stage in (None, each.name)]
    if not stages:
        raise UsageFault(f"--stage {stage}: the run did not execute this stage")
    _print_incomplete(sealed, stages)
    if key:
        rows = [(each, _rows(sealed, folder, each)) for each in stages]
        return _print_key(sealed, rows, key)
    _print_hints([(each.name, _hints(sealed, folder, each)) for each in stages])
    return ExitCode.DONE


def _of_server(name: str, key: "Sequence[str]", stage: str | None) -> ExitCode:
    """Explain a run of the server by its hints, or a key among its largest differences."""
    from datarecs_cli.server_evidence import run_of_server

    server_run = run_of_server(name, with_rows=bool(key), stage=stage)
    stages = [
        each for each in server_run.sealed.stages if each.results and stage in (None, each.name)
    ]
    if not stages:
        raise UsageFault(f"--stage {stage}: the run did not execute this stage")
    _print_incomplete(server_run.sealed, stages)
    if not key:
        _print_hints([(each.name, server_run.hints(each.name)) for each in stages])
        return ExitCode.DONE
    rows = [(each, server_run.rows(each)) for each in stages]
    return _print_key(server_run.sealed, rows, key, incomplete=server_run.incomplete)


def _print_incomplete(run: "SealedRun", stages: "Sequence[SealedStage]") -> None:
    """Print the stages that store only some of their differences; only these are explained."""
    from datarecs_core.comparison.results.verdict import BREAKS_TRUNCATED

    names = {each.name for each in stages}
    for warning in run.warnings:
        if warning.code == BREAKS_TRUNCATED and warning.stage in names:
            current().say(f"stage {warning.stage}: {warning.message}")


def _rows(run: "SealedRun", folder: Path, stage: "SealedStage") -> "Iterator[Difference]":
    from datarecs_reports.stored_rows import parts_of, read_rows

    return read_rows(parts_of(folder, stage.name), stage, run.sources, masked=True)


def _hints(run: "SealedRun", folder: Path, stage: "SealedStage") -> "list[Hint]":
    from datarecs_reports.likely_causes import stage_hints
    from datarecs_reports.stored_rows import parts_of

    return list(stage_hints(run, stage, parts_of(folder, stage.name)))


def _print_hints(stage_hints: StageHints) -> None:
    from datarecs_cli.output import cell, print_json
    from datarecs_reports.figures import count, percent
    from datarecs_reports.words import NO_LINE

    if current().is_json:
        stages = [
            {"stage": stage, "hints": [_members(hint) for hint in hints]}
            for stage, hints in stage_hints
        ]
        print_json("explain", {"stages": stages})
        return
    for stage, hints in stage_hints:
        for hint in hints:
            share = f"{count(hint.explained)} of {count(hint.of)} breaks"
            print(f"{cell(stage)} {cell(hint.measure)}: {cell(hint.what)}")
            print(f"  {hint.rule}, {share} ({percent(hint.explained, hint.of)})")
            print(f"  such as  {' '.join(hint.examples)}")
            print(f"  declare  {cell(hint.declare)}" if hint.declare else f"  {NO_LINE}")
    if not any(hints for _, hints in stage_hints):
        current().say("no rule explains half of a measure's breaks, or a measure has fewer than 5")


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
    run: "SealedRun",
    stored: "Sequence[tuple[SealedStage, Iterable[Difference]]]",
    key: Sequence[str],
    *,
    incomplete: bool = False,
) -> ExitCode:
    from datarecs_cli.output import cell, print_json

    keys = [(stage, rows, _meant(run, stage, key)) for stage, rows in stored]
    _check_names([stage for stage, _ in stored], keys, key)
    differences = [
        (stage, row) for stage, rows, meant in keys if meant for row in rows if row.key in meant
    ]
    if current().is_json:
        print_json("explain", {"differences": [_difference(row) for _, row in differences]})
        return ExitCode.DONE
    for stage, row in differences:
        words = ", ".join(dict.fromkeys((f"{row.difference_class}", f"{row.outcome}")))
        print(f"{cell(stage.name)} {cell(row.measure)}: {words}")
        for line in _lines(run, stage, row):
            print(f"  {line}")
    if not differences:
        current().say(_without_difference(keys, key, incomplete=incomplete))
    return ExitCode.DONE


def _meant(run: "SealedRun", stage: "SealedStage", key: Sequence[str]) -> "tuple[Key, ...]":
    """The stored keys that a typed key can mean; none if the stage has other key columns."""
    from zoneinfo import ZoneInfo

    from datarecs_core.comparison.insight.key_lookup import KeyReading, zones_of

    typed = _key_of([each.name for each in stage.dimensions], key)
    if typed is None or not typed:
        return ()
    zones = {name: ZoneInfo(name) for name in zones_of(run)}
    return KeyReading(run=run, stage=stage, zones=zones).meant(typed)


def _check_names(
    stages: "Sequence[SealedStage]", keys: "Sequence[Meant]", typed: Sequence[str]
) -> None:
    if not any(meant for _, _, meant in keys):
        known = "; ".join(
            f"{stage.name}: {' '.join(f'{each.name}=…' for each in stage.dimensions) or 'no key'}"
            for stage in stages
        )
        raise UsageFault(
            f"{' '.join(typed)} is not a key of an executed stage; the keys are {known}"
        )


def _without_difference(keys: "Sequence[Meant]", typed: Sequence[str], *, incomplete: bool) -> str:
    """The message for a key without a stored difference; the key may be in no source at all."""
    from datarecs_cli.output import cell

    shown = " ".join(map(cell, typed))
    if incomplete:
        return f"no difference of {shown} is among the largest differences that the server lists"
    forms = {
        " ".join("NULL" if part is None else part for part in key)
        for _, _, meant in keys
        for key in meant[1:]
        if key != meant[0]
    }
    compared = f" (compared as {', '.join(map(cell, sorted(forms)))})" if forms else ""
    return (
        f"no difference of {shown}{compared} is stored; a run stores only differences, so it is "
        "unknown whether any source has the key"
    )


def _key_of(dimensions: Sequence[str], parts: Sequence[str]) -> tuple[str, ...] | None:
    """The typed key in the order of a stage's dimensions; None if it has other columns."""
    if len(dimensions) == len(parts) == 1 and not parts[0].startswith(f"{dimensions[0]}="):
        return (parts[0],)
    named = dict(part.partition("=")[::2] for part in parts)
    return tuple(named[name] for name in dimensions) if set(named) == set(dimensions) else None


def _lines(run: "SealedRun", stage: "SealedStage", row: "Difference") -> Iterator[str]:
    from datarecs_cli.output import cell
    from datarecs_core.documents import decimal_text
    from datarecs_reports.unreadable import readable
    from datarecs_reports.words import presence_words

    measure = next((each for each in stage.measures if each.name == row.measure), None)
    kinds = dict(zip(run.sources, measure.types if measure else (), strict=False))
    values, raw, deltas = dict(row.values), dict(row.raw_values), dict(row.deltas)
    yield presence_words(row.presence, run.sources)
    for source, written in row.raw_keys:
        yield f"{cell(source)}  key as read  {cell(written)}"
    for source in run.sources:
        if source not in values:
            continue
        value = values[source]
        shown = "NULL" if value is None else cell(readable(value, kinds.get(source)))
        before = f"  (as read {cell(raw[source] or 'NULL')})" if source in raw else ""
        apart = f"  delta {decimal_text(deltas[source])}" if source in deltas else ""
        yield f"{cell(source)}  {shown}{before}{apart}"
    if row.odd_one_out:
        yield f"odd one out  {cell(row.odd_one_out)}"
    yield f"break  {row.break_id}"


def _difference(row: "Difference") -> dict[str, object]:
    from datarecs_core.documents import decimal_text
    from datarecs_reports.unreadable import with_text

    return {
        "break_id": row.break_id,
        "stage": row.stage,
        "measure": row.measure,
        "class": row.difference_class,
        "outcome": row.outcome,
        "key": [with_text(part) for part in row.key],
        "values": {name: with_text(value) for name, value in row.values},
        "raw_keys": dict(row.raw_keys),
        "raw_values": dict(row.raw_values),
        "deltas": {name: decimal_text(delta) for name, delta in row.deltas},
        "odd_one_out": row.odd_one_out,
    }
