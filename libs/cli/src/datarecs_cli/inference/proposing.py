"""Proposes a job for two sources: reads samples, pairs columns, selects a key and tolerances."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from datarecs_cli.inference.csv_form import can_name
from datarecs_cli.inference.measures import measure_of
from datarecs_cli.inference.pairing import (
    Key,
    Pair,
    key_of,
    meeting_of,
    pairs_by_names,
    pairs_by_rows,
)
from datarecs_cli.inference.samples import Sample, sample_of, source_of
from datarecs_cli.inference.tables import Table, is_table, name_of_table, table_of
from datarecs_cli.inference.writing import Proposal
from datarecs_cli.invocation import Invocation, UsageFault
from datarecs_cli.local.places import names_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The command line of `init`."""

    places: tuple[str, str]
    keys: tuple[tuple[str, str], ...] = ()
    """Key columns of both sources, if the user names them."""
    target: Path | None = None
    connections: Path | None = None


def propose(request: Request, invocation: Invocation) -> tuple[Proposal, tuple[str, ...]]:
    """Propose the job, with the variables that it needs.

    Raises:
        UsageFault: nothing to compare, or no columns that identify rows in both sources.
        DatarecsError: a source cannot be read.
    """
    _refuse_same(request.places)
    names = names_of([name_of_table(each) if is_table(each) else each for each in request.places])
    tables = [
        table_of(place, name, request.connections, invocation) if is_table(place) else None
        for place, name in zip(request.places, names, strict=True)
    ]
    samples = [
        _sample(place, name, table)
        for place, name, table in zip(request.places, names, tables, strict=True)
    ]
    left, right = samples
    for place, sample in zip(request.places, samples, strict=True):
        if not sample.rows:
            raise UsageFault(f"{shown(place)}: the source has no rows; name a source with rows")
    pairs = pairs_by_names(left, right)
    key = _declared_key(request, left, right) if request.keys else key_of(pairs)
    if key is None:
        raise UsageFault(_no_key(pairs, left, right))
    proposal = _proposal(request, (left, right), pairs, key, tables)
    variables = tuple(each.variable for each in tables if each is not None and each.variable)
    return proposal, variables


def shown(place: str) -> str:
    """A place without the password of its address."""
    head, at, tail = place.rpartition("@")
    user = head.rpartition(":")[0] if head.count(":") > 1 else head
    return f"{user}{at}{tail}"


def _refuse_same(places: tuple[str, str]) -> None:
    if is_table(places[0]) or is_table(places[1]):
        is_same = places[0] == places[1]
    else:
        is_same = Path(places[0]).resolve() == Path(places[1]).resolve()
    if is_same:
        raise UsageFault(f"{shown(places[0])} is named twice; name two different sources")


def _sample(place: str, name: str, table: Table | None) -> Sample:
    if table is None:
        return sample_of(place, source_of(place, name), None, {})
    return sample_of(place, table.source, table.connection, dict(table.secrets))


def _declared_key(request: Request, left: Sample, right: Sample) -> Key:
    sides = [{each.name: each for each in sample.columns} for sample in (left, right)]
    pairs = []
    for names in request.keys:
        for sample, columns, name in zip((left, right), sides, names, strict=True):
            if name not in columns:
                known = ", ".join(columns)
                raise UsageFault(
                    f"--key: {sample.source.name} has no column {name}; it has {known}"
                )
        pairs.append(
            Pair(left=sides[0][names[0]], right=sides[1][names[1]], reason="named by --key")
        )
    return Key(pairs=tuple(pairs), common=0, smaller=0, repeated=0)


def _proposal(
    request: Request,
    samples: tuple[Sample, Sample],
    pairs: Sequence[Pair],
    key: Key,
    tables: Sequence[Table | None],
) -> Proposal:
    left, right = samples
    meeting = meeting_of(key)
    keys = ({each.left.name for each in key.pairs}, {each.right.name for each in key.pairs})
    rest = [
        each for each in pairs if each.left.name not in keys[0] and each.right.name not in keys[1]
    ]
    rest += pairs_by_rows(left, right, meeting, [*key.pairs, *rest])
    order = {column.name: at for at, column in enumerate(left.columns)}
    rest.sort(key=lambda each: order[each.left.name])
    used = (
        keys[0] | {each.left.name for each in rest},
        keys[1] | {each.right.name for each in rest},
    )
    documents = dict.fromkeys(each.document for each in tables if each is not None)
    names = [each.source.name for each in samples]
    return Proposal(
        name="-vs-".join(names),
        command=f"datarecs init {' '.join(map(shown, request.places))}",
        samples=samples,
        paths=(_path(request, 0), _path(request, 1)),
        key=key,
        measures=tuple(measure_of(each, meeting) for each in rest),
        alone=(_alone(left, used[0]), _alone(right, used[1])),
        connections=tuple(each for each in documents if each),
    )


def _path(request: Request, at: int) -> str:
    """The path relative to the folder of the job file."""
    place = request.places[at]
    if is_table(place) or Path(place).is_absolute() or request.target is None:
        return place
    relative = os.path.relpath(place, request.target.absolute().parent)
    return str(Path(place).absolute()) if relative.startswith("..") else relative


def _alone(sample: Sample, used: set[str]) -> tuple[str, ...]:
    unused = (each.name for each in sample.columns if each.name not in used)
    # Names that a job cannot use may have characters that YAML cannot have.
    return (*unused, *(each if can_name(each) else json.dumps(each) for each in sample.left_out))


def _no_key(pairs: Sequence[Pair], left: Sample, right: Sample) -> str:
    sides: Mapping[str, Sample] = {"first": left, "second": right}
    columns = "; ".join(
        f"the {word} has {', '.join(each.name for each in sample.columns)}"
        for word, sample in sides.items()
    )
    paired = ", ".join(f"{each.left.name} = {each.right.name}" for each in pairs) or "none"
    return (
        "no column and no pair of columns identifies rows in both sources; "
        f"matching columns: {paired}; {columns}; name the key with --key NAME_IN_A=NAME_IN_B"
    )
