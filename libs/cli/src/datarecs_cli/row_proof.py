"""Row digests in `verify`: checks the digest file against its root and the data against the file.

Unlike `evidence`, this module reads data: the plan in run.json defines how, the user names the
current place, and the key is needed because digests are keyed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast
from zoneinfo import ZoneInfo

from datarecs_cli.invocation import UsageFault
from datarecs_core.comparison.oracle.grouping import Outside
from datarecs_core.comparison.oracle.reference import sums_of_source
from datarecs_core.comparison.planning.documents import plan_from_document
from datarecs_core.comparison.planning.faults import ConditionNotSupportedError, TooManyRowsError
from datarecs_core.comparison.planning.plan import ComparisonPlan, StagePlan
from datarecs_core.comparison.planning.scan import FileList, Scan
from datarecs_core.comparison.proof.sealed import SealedRun
from datarecs_core.comparison.proof.verification import Finding, differing_leaves, verify_digests
from datarecs_core.comparison.results.differences import COMPARE_KEY, COMPARE_KEY_ID
from datarecs_core.comparison.results.row_digests import Leaf
from datarecs_core.documents import from_document
from datarecs_core.jobs.definition import Source
from datarecs_reports.digest_file import DigestsUnreadableError, read_digests
from datarecs_reports.figures import counted

if TYPE_CHECKING:
    from datarecs_core.hashing import JsonValue

_KEY_DIGITS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RowProof:
    """The leaves of a run and the findings about them."""

    leaves: Sequence[Leaf]
    findings: tuple[Finding, ...]
    checked: tuple[str, ...]
    not_checked: tuple[str, ...]


def row_proof(run: SealedRun, beside: Path, digests: Path | None) -> RowProof:
    """Check the file of row digests by itself.

    Args:
        run: a run with a document that passed its checks.
        beside: the run.json.
        digests: a file that the user named; default the one beside the run.json.

    Raises:
        UsageFault: the run seals no rows, or the named file is missing.
    """
    if run.digests is None:
        if digests is not None:
            raise UsageFault("--digests: the run has no row digests; its job has `proof: counts`")
        return RowProof(leaves=(), findings=(), checked=(), not_checked=())
    file = digests or beside.parent / run.digests.file
    try:
        leaves = read_digests(file)
    except FileNotFoundError as cause:
        if digests is not None:
            raise UsageFault(f"{file}: no such file") from cause
        left = f"row digests: {run.digests.file} beside {beside.name} is missing"
        return RowProof(leaves=(), findings=(), checked=(), not_checked=(left,))
    except DigestsUnreadableError as broken:
        fault = Finding(check="digests", message=str(broken))
        return RowProof(leaves=(), findings=(fault,), checked=(), not_checked=())
    findings = tuple(verify_digests(run, leaves))
    done = f"{counted(len(leaves), 'row digest', 'row digests')} under their root (F17)"
    return RowProof(leaves=leaves, findings=findings, checked=(done,), not_checked=())


def key_of(run: SealedRun, file: Path | None) -> bytes | None:
    """The key of the digests: the published key of `compare`, or a file; None without a file.

    Raises:
        UsageFault: the file is not 64 hexadecimal digits, or cannot be read.
    """
    if file is None:
        return COMPARE_KEY if run.key_id == COMPARE_KEY_ID else None
    try:
        written = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as cause:
        raise UsageFault(f"--key-file {file}: the file cannot be read") from cause
    fault = f"--key-file {file}: a key has {_KEY_DIGITS} hexadecimal digits"
    if len(written) != _KEY_DIGITS:
        raise UsageFault(fault)
    try:
        return bytes.fromhex(written)
    except ValueError as cause:
        raise UsageFault(fault) from cause


def carried_plan(document: object, run: SealedRun) -> ComparisonPlan | None:
    """The plan in a run.json; None if it has none, or one of another run."""
    members = document.get("run") if isinstance(document, Mapping) else None
    written = members.get("plan") if isinstance(members, Mapping) else None
    try:
        plan = plan_from_document(cast("JsonValue", written))
    except ValueError:
        return None
    same = tuple(scan.source for scan in plan.scans) == run.sources
    names = tuple(stage.name for stage in plan.stages) == tuple(each.name for each in run.stages)
    return plan if same and names and plan.spec_hash == run.spec_hash else None


def data_findings(
    run: SealedRun,
    plan: ComparisonPlan,
    leaves: Sequence[Leaf],
    *,
    source: str,
    place: Path,
    key: bytes,
) -> Iterator[Finding | str]:
    """Findings about a source's data against the sealed digests; a text is a check not done.

    Args:
        run: the run of the leaves.
        plan: the plan of the run.
        leaves: the stored leaves.
        source: a file source of the run.
        place: the folder of its pinned paths, or the file if there is only one.
        key: the key of the digests.
    """
    index = run.sources.index(source)
    pin = run.pins[index]
    files = pin.get("files")
    if not isinstance(files, list) or pin.get("kind") != "file_list":
        yield f"rows of source {source}: its pin lists no files"
        return
    scan = _scan_at(plan.scans[index], cast("JsonValue", pin), place)
    for stage, sealed in zip(plan.stages, run.stages, strict=True):
        if sealed.results is None:
            continue
        reason = _not_from_rows(stage, is_rechecked=sealed.confirmed is not None)
        if reason is not None:
            yield f"source {source} in stage {stage.name}: {reason}"
            continue
        try:
            made = _leaves(stage, scan, index, key)
        except (TooManyRowsError, ConditionNotSupportedError) as cause:
            yield f"rows of source {source} in stage {stage.name}: {cause}"
            continue
        yield from differing_leaves(leaves, made, stage=stage.name, source=source)


def _not_from_rows(stage: StagePlan, *, is_rechecked: bool) -> str | None:
    """Why the rows of one source are not enough to check a stage; None if they are."""
    if is_rechecked:
        return "some of its rows were read again at a newer pin"
    if stage.catalogue is not None:
        return "it compares columns, not rows"
    return "its scope needs the rows of every source" if stage.scope is not None else None


def _leaves(stage: StagePlan, scan: Scan, index: int, key: bytes) -> list[Leaf]:
    zones = {name: ZoneInfo(name) for name in stage.zones}
    sums = sums_of_source(stage, index, _rows(scan), Outside(key=key, zones=zones))
    return [
        Leaf(
            stage=stage.name,
            source=scan.source,
            bucket=each.bucket,
            rows=each.rows,
            total=each.total,
        )
        for each in sums
    ]


def _scan_at(scan: Scan, pin: "JsonValue", place: Path) -> Scan:
    """The scan of the pinned files at their current place."""
    fields = cast("Mapping[str, JsonValue]", pin)
    files = [
        cast("Mapping[str, JsonValue]", each) for each in cast("list[JsonValue]", fields["files"])
    ]
    root = place
    if place.is_file() and len(files) == 1:
        root, files = place.parent, [{**files[0], "path": place.name}]
    files = [_with_size_now(file, root) for file in files]
    taken = cast("FileList", scan.pin).taken_at
    listed = from_document(
        FileList, {"root": str(root.absolute()), "files": files, "taken_at": taken.isoformat()}
    )
    return replace(scan, pin=listed, extract=None)


def _with_size_now(file: "Mapping[str, JsonValue]", root: Path) -> "Mapping[str, JsonValue]":
    """Use the current size, so that a file that has grown is still read and its rows checked."""
    place = root / str(file["path"])
    return {**file, "size_bytes": place.stat().st_size} if place.is_file() else file


def _rows(scan: Scan) -> Iterator[tuple[object, ...]]:
    """The rows of a file source, read with the user's permissions."""
    from datarecs_connectors.registry import Surroundings, open_connector
    from datarecs_core.egress.addresses import Policy, Profile, Purpose
    from datarecs_runtime.clock import SystemClock

    source = Source(
        name=scan.source,
        kind=scan.kind,
        path=scan.path,
        tables=dict(scan.tables),
        options=dict(scan.options),
    )
    around = Surroundings(
        roots=(Path(cast("FileList", scan.pin).root),),
        policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
        now=SystemClock().now,
        any_path=True,
    )
    opened = open_connector(source, None, {}, surroundings=around)
    try:
        yield from opened.rows(scan)
    finally:
        opened.close()
