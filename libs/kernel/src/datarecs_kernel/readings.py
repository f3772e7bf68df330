"""What a stage reads, and its relations: for one task that reads everything, or for a share of it.

One value defines the scans of each recheck, the limits of their rows, and how texts are read. All
readers create their relations here, so each rule exists once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from datarecs_core.comparison.planning.confirming import counted_rechecks
from datarecs_core.comparison.planning.plan import ScopePlan, StagePlan
from datarecs_core.comparison.planning.scan import Scan
from datarecs_kernel.catalogue import list_columns
from datarecs_kernel.database import Connection
from datarecs_kernel.delivered import Delivered, Share, delivered
from datarecs_kernel.layout import Field, Layout, PlainColumns, Role, keys_of
from datarecs_kernel.partials import delivers_groups
from datarecs_kernel.relations import create_relation, rows_behind_filter
from datarecs_kernel.scopes import Scope

Rechecks = Sequence[Sequence[Delivered]]
"""By recheck and source; the first read counts as recheck 0."""
Shares = tuple[tuple[Share, ...], ...]
"""By recheck and source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The rows of a stage."""

    plan: StagePlan
    key: bytes
    """The tenant's, for buckets."""
    check_texts: bool
    """Whether files may have text that is not UTF-8, which needs another reader."""
    scope_files: tuple[str, ...] = ()
    """Keys of the groups to which the stage is limited."""
    recheck_files: tuple[tuple[str, ...], ...] = ()
    """Keys of the groups that differed before each recheck."""

    @property
    def scans(self) -> tuple[tuple[Scan, ...], ...]:
        """By recheck and source."""
        return counted_rechecks(self.plan)

    @property
    def is_limited(self) -> bool:
        """Whether some rows of a source may not belong to the stage."""
        return self.plan.where is not None or self.plan.scope is not None


def read_sources(
    connection: Connection, reading: Reading, shares: Shares | None = None
) -> list[list[Delivered]]:
    """The sources at each recheck.

    Args:
        connection: for the relations over these sources.
        reading: of a stage.
        shares: the part of each to read; None is all.

    Raises:
        SourceFailedError: a file is missing, damaged, or has other columns than the pin.
    """
    if reading.plan.catalogue is not None:
        return [list_columns(reading.plan)]
    return [
        [
            delivered(
                connection,
                scan,
                check_texts=reading.check_texts,
                share=None if shares is None else shares[recheck][scan.index],
            )
            for scan in scans
        ]
        for recheck, scans in enumerate(reading.scans)
    ]


def columns_of(rechecks: Rechecks) -> tuple[PlainColumns, ...]:
    """How each source stores its columns, over all of its rechecks."""
    return tuple(
        PlainColumns(
            checked=frozenset().union(*(each.checked for each in reads)),
            wide=frozenset().union(*(each.wide for each in reads)),
        )
        for reads in zip(*rechecks, strict=True)
    )


def create_relations(
    connection: Connection,
    reading: Reading,
    layout: Layout,
    rechecks: Rechecks,
    columns: Sequence[PlainColumns],
) -> list[str]:
    """The FROM text per source, with the columns of `relation_columns`.

    Args:
        connection: of the rechecks.
        reading: of the stage.
        layout: of the rows.
        rechecks: as `read_sources` returns them, whole or in shares.
        columns: of the whole sources.
    """
    plan = reading.plan
    conditions = (plan.where, None if plan.scope is None else plan.scope.where)
    scopes = _stage_scope(reading, columns)
    relations = []
    for index in layout.sources:
        # A source that returns groups has filtered its rows itself.
        where = () if delivers_groups(plan, index) else conditions
        parts = [
            create_relation(
                connection,
                layout,
                sources[index],
                conditions=where,
                scopes=(*scopes, *_recheck_scopes(reading, number, columns)),
            )
            for number, sources in enumerate(rechecks)
        ]
        relations.append(parts[0] if len(parts) == 1 else _union(parts))
    return relations


def count_rows(
    connection: Connection,
    reading: Reading,
    rechecks: Rechecks,
    columns: Sequence[PlainColumns],
) -> list[int]:
    """Rows of each source before any condition and scope of the stage."""
    if len(rechecks) == 1:
        return [rows_behind_filter(connection, source) for source in rechecks[0]]
    layout = Layout(stage=reading.plan, keys=(), measures=())
    counts = []
    for index in layout.sources:
        parts = [
            create_relation(
                connection,
                layout,
                sources[index],
                scopes=_recheck_scopes(reading, number, columns),
            )
            for number, sources in enumerate(rechecks)
        ]
        query = f"SELECT count(*) FROM {_union(parts)}"
        ((rows,),) = connection.execute(query).fetchall()
        counts.append(rows)
    return counts


def _union(relations: Sequence[str]) -> str:
    return f"({' UNION ALL '.join(f'FROM {each}' for each in relations)})"


def _stage_scope(reading: Reading, columns: Sequence[PlainColumns]) -> tuple[Scope, ...]:
    scope = reading.plan.scope
    if scope is None:
        return ()
    return (_scope(reading, scope, _group_fields(scope, columns, "z"), reading.scope_files),)


def _recheck_scopes(
    reading: Reading, recheck: int, columns: Sequence[PlainColumns]
) -> tuple[Scope, ...]:
    """The groups with this as their last recheck: they differed before it, not before the next."""
    if len(reading.scans) == 1:
        return ()
    groups = reading.plan.groups_of_rows
    fields = _group_fields(groups, columns, "y")
    scopes = []
    if recheck:
        scopes.append(_scope(reading, groups, fields, reading.recheck_files[recheck - 1]))
    if recheck < len(reading.recheck_files):
        before_next = _scope(reading, groups, fields, reading.recheck_files[recheck])
        scopes.append(replace(before_next, is_excluded=True))
    return tuple(scopes)


def _group_fields(
    groups: ScopePlan, columns: Sequence[PlainColumns], prefix: str
) -> tuple[Field, ...]:
    role = Role.HASHED if groups.buckets else Role.KEY
    return keys_of(groups.dimensions, columns, prefix, role=role)


def _scope(
    reading: Reading, groups: ScopePlan, fields: tuple[Field, ...], files: tuple[str, ...]
) -> Scope:
    return Scope(fields=fields, files=files, bucket_key=reading.key if groups.buckets else None)
