"""Writes a proposed job as YAML, with a comment on the reason and the checks of each choice."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from datarecs_cli.inference.csv_form import CsvForm
from datarecs_cli.inference.measures import ProposedMeasure
from datarecs_cli.inference.pairing import Key, Pair, day_side
from datarecs_cli.inference.samples import Sample

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*(?: [A-Za-z0-9_]+)*")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_NAME = re.compile(r"[^\W\d]\w*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The content of a job file."""

    name: str
    command: str
    samples: tuple[Sample, Sample]
    paths: tuple[str, str]
    """Paths as in the job file; empty for tables."""
    key: Key
    measures: tuple[ProposedMeasure, ...]
    alone: tuple[tuple[str, ...], tuple[str, ...]]
    """Columns without a matching column."""
    connections: tuple[str, ...] = ()
    """Documents of the connections, in YAML."""


def job_yaml(proposal: Proposal) -> str:
    """The whole file."""
    return "\n".join(
        [*_documents(proposal), *_head(proposal), *_sources(proposal), *_rest(proposal)]
    )


def quoted(text: str) -> str:
    """A text as a YAML scalar."""
    bare = _BARE.fullmatch(text) is not None and text.lower() not in _WORDS
    return text if bare else json.dumps(text, ensure_ascii=False)


def _documents(proposal: Proposal) -> Iterator[str]:
    for document in proposal.connections:
        yield document.rstrip("\n")
        yield "---"


def _head(proposal: Proposal) -> Iterator[str]:
    yield f"# Written by: {_line(proposal.command)}"
    for sample in proposal.samples:
        yield f"# {_line(read_words(sample))}"
    yield "# A proposal from these samples: read the comments and correct what is wrong."
    yield "apiVersion: datarecs.io/v1"
    yield "kind: ReconciliationJob"
    yield f"metadata: {{name: {proposal.name}}}"
    yield "spec:"


def read_words(sample: Sample) -> str:
    """A text about the size of a sample."""
    part = "all" if sample.is_whole else "the first"
    first = f", of the first of {sample.files} files" if sample.files > 1 else ""
    columns = len(sample.columns)
    return f"{sample.source.name}: {part} {sample.rows:,} rows read, {columns} columns{first}"


def _line(text: str) -> str:
    """The text in one line, so that it is one comment."""
    return " ".join(text.split())


def _sources(proposal: Proposal) -> Iterator[str]:
    yield "  sources:"
    for at, (sample, path) in enumerate(zip(proposal.samples, proposal.paths, strict=True)):
        source = sample.source
        yield f"    - name: {source.name}"
        yield f"      kind: {source.kind}"
        if source.connection:
            yield f"      connection: {source.connection}"
            yield f"      relation: {quoted(source.relation or '')}"
        else:
            yield f"      path: {quoted(path)}"
        if sample.form is not None:
            yield from _options(sample.form)
        yield from _columns(proposal, at)


def _options(form: CsvForm) -> Iterator[str]:
    yield "      options:"
    for name, value in form.options.items():
        yield f"        # {_line(form.reasons[name])}"
        yield f"        {name}: {_flow(value)}"


def _flow(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case Mapping():
            return "{" + ", ".join(f"{quoted(str(k))}: {_flow(v)}" for k, v in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case _:
            return json.dumps(str(value), ensure_ascii=False)


def _columns(proposal: Proposal, at: int) -> Iterator[str]:
    """Lines for names of the second source and for times that are compared by their day."""
    pairs = [*proposal.key.pairs, *(each.pair for each in proposal.measures)]
    lines = []
    for pair in pairs:
        column = (pair.left, pair.right)[at]
        if day_side(pair) == at:
            expr = f"CAST({_sql_name(column.name)} AS date)"
            reason = "the other source has no time of day"
            lines.append((pair.left.name, f"{{expr: {json.dumps(expr)}}}", reason))
        elif at == 1 and pair.left.name != column.name:
            lines.append((pair.left.name, quoted(column.name), pair.reason))
    if lines:
        yield "      columns:"
        for name, value, reason in lines:
            yield f"        {quoted(name)}: {value}  # {_line(reason)}"


def _sql_name(name: str) -> str:
    escaped = name.replace('"', '""')
    return name if _NAME.fullmatch(name) else f'"{escaped}"'


def _rest(proposal: Proposal) -> Iterator[str]:
    folded = [each.pair.left.name for each in proposal.measures if each.is_folded]
    if folded:
        yield "  normalize:"
        yield "    columns:"
        for name in folded:
            yield f"      {quoted(name)}: {{trim: both, case: fold}}"
    for sample, names in zip(proposal.samples, proposal.alone, strict=True):
        if names:
            listed = _line(", ".join(names))
            yield f"  # not compared, no matching column: {listed} of {sample.source.name}"
    yield "  stages:"
    yield "    - name: rows"
    yield "      type: row"
    for line in key_words(proposal.key):
        yield f"      # {_line(line)}"
    dimensions = ", ".join(quoted(each.left.name) for each in proposal.key.pairs)
    yield f"      dimensions: [{dimensions}]"
    if proposal.measures:
        yield "      measures:"
        for measure in proposal.measures:
            yield from _measure(measure, proposal.samples[1].source.name)
    else:
        yield "      # no further column is in both sources: only keys are compared"
    yield ""


def key_words(key: Key) -> list[str]:
    """Why these columns are the key."""
    columns = " and ".join(each.left.name for each in key.pairs)
    lines = [
        f"key {columns}: {key.common:,} of {key.smaller:,} values of the sample are in both sources"
        + (f", {key.repeated:,} rows repeat a key" if key.repeated else ", none is repeated")
    ]
    if key.others:
        lines.append(f"also possible: {', '.join(key.others)}")
    return lines


def _measure(measure: ProposedMeasure, other: str) -> Iterator[str]:
    yield f"        # {_line(measure.reason)}"
    parts = [f"name: {quoted(measure.pair.left.name)}"]
    if measure.tolerance is not None:
        kind, value = measure.tolerance
        parts.append(f'tolerances: [{{type: {kind}, value: "{value}"}}]')
    if measure.words:
        entries = ", ".join(
            f"{json.dumps(word, ensure_ascii=False)}: {json.dumps(ours, ensure_ascii=False)}"
            for word, ours in measure.words
        )
        parts.append(f"map: {{{other}: {{{entries}}}}}")
    yield f"        - {{{', '.join(parts)}}}"


def pair_words(pairs: Sequence[Pair]) -> Iterator[str]:
    """Pairs with different names, with the reason."""
    for each in pairs:
        if each.left.name != each.right.name:
            yield f"{each.left.name} = {each.right.name} ({each.reason})"
