"""What `datarecs capture` shows: a tree with states and counters, and the progress of a wait."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from datarecs_cli.client import Api, Json
from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.output import ASCII, Column, Words, cell
from datarecs_cli.refusals import WaitedTooLongError
from datarecs_cli.screen import Screen
from datarecs_core.captures.items import ENDED, WorkState

JOBS = "capture-jobs"
TREE_PAGE = 500
POLL = timedelta(seconds=1)
HEARTBEAT = timedelta(seconds=10)
COLUMNS = (
    Column(title="JOB", member="job_id"),
    Column(title="KIND", member="kind"),
    Column(title="STATE", member="state"),
    Column(title="CONNECTION", member="connection"),
    Column(title="OBJECT", member="object"),
    Column(title="MODE", member="mode"),
    Column(title="CREATED", member="created_at"),
)
_COUNTED: Mapping[str, str] = {
    "tables_scanned": "tables",
    "views_scanned": "views",
    "tables_skipped": "skipped",
    "snapshots_planned": "snapshots",
    "snapshots_finalized": "finalized",
    "files_total": "files",
    "files_completed": "captured",
    "files_reused": "reused",
    "file_groups_failed": "groups failed",
    "stats_written": "statistics",
    "indexes_written": "indexes",
}
"""Counters in the order of their work, with the word that is shown."""
_EXITS: Mapping[WorkState, ExitCode] = {
    WorkState.SUCCEEDED: ExitCode.DONE,
    WorkState.FAILED: ExitCode.ERRORED,
    WorkState.CANCELLED: ExitCode.CANCELLED,
    WorkState.CANCELLING: ExitCode.CANCELLED,
}


def state_of(job: Json) -> WorkState:
    return WorkState(str(job["state"]))


def exit_code_of_capture(job: Json) -> ExitCode:
    """The code of a command that waited for the job."""
    return _EXITS.get(state_of(job), ExitCode.ERRORED)


def tree_lines(items: Sequence[Json], words: Words) -> Iterator[str]:
    """One line per job, below its parent.

    Args:
        items: of a tree, parents before children.
        words: of the terminal.
    """
    is_ascii = words is ASCII
    branch, last, line = ("|- ", "`- ", "|  ") if is_ascii else ("├─ ", "└─ ", "│  ")
    depths = [int(str(item["depth"])) for item in items]
    sums = _sums(items, depths)
    open_depths: list[bool] = []
    for index, (item, depth) in enumerate(zip(items, depths, strict=True)):
        has_next = _has_sibling(depths, index)
        del open_depths[depth:]
        stems = "".join(line if is_open else "   " for is_open in open_depths[1:])
        elbow = "" if depth == 0 else branch if has_next else last
        open_depths.append(has_next)
        yield f"{stems}{elbow}{_job_line(item, sums[index], words)}"


def _sums(items: Sequence[Json], depths: Sequence[int]) -> Sequence[Mapping[str, int]]:
    """Of each item: its counters and those of everything below it."""
    sums: list[Counter[str]] = []
    path: list[Counter[str]] = []
    for item, depth in zip(items, depths, strict=True):
        del path[depth:]
        here = Counter[str]()
        path.append(here)
        sums.append(here)
        counted = _counted(item)
        for one in path:
            one.update(counted)
    return sums


def _counted(item: Json) -> Mapping[str, int]:
    """The counters of the item alone; a group that has ended counts above as one."""
    counters = item["counters"]
    counted = dict(counters) if isinstance(counters, Mapping) else {}
    if item["kind"] == "EXEC_FILE_GROUP" and state_of(item) in ENDED:
        is_done = state_of(item) is WorkState.SUCCEEDED
        counted["file_groups_completed" if is_done else "file_groups_failed"] = 1
    return counted


def _has_sibling(depths: Sequence[int], index: int) -> bool:
    for depth in depths[index + 1 :]:
        if depth <= depths[index]:
            return depth == depths[index]
    return False


def _job_line(item: Json, sums: Mapping[str, int], words: Words) -> str:
    state = state_of(item)
    parts = [sign_of(state, words), str(item["kind"]), *_place(item), state.value]
    counted = counters_text(sums)
    error = item.get("error")
    if isinstance(error, Mapping) and state is not WorkState.SUCCEEDED:
        counted = f"{error['code']}: {error['message']}"
    return cell("  ".join([" ".join(parts), *([counted] if counted else [])]))


def _place(item: Json) -> Iterator[str]:
    if item["kind"] == "PLAN_CONNECTOR":
        yield str(item["connection"] or "(deleted)")
    elif item["kind"] == "EXEC_FILE_GROUP":
        yield f"group {item['group']}"
    else:
        if item["object"] is not None:
            yield str(item["object"])
        if item["snapshot_id"] is not None:
            yield f"snapshot {item['snapshot_id']}"


def sign_of(state: WorkState, words: Words) -> str:
    return {
        WorkState.SUCCEEDED: words.tick,
        WorkState.FAILED: words.errored,
        WorkState.CANCELLED: words.cancelled,
        WorkState.CANCELLING: words.cancelled,
    }.get(state, words.running)


def counters_text(counters: object) -> str:
    """The counters that are not 0, such as `tables 3, files 12`."""
    if not isinstance(counters, Mapping):
        return ""
    shown = [f"{word} {counters[name]}" for name, word in _COUNTED.items() if counters.get(name)]
    done = counters.get("file_groups_completed")
    if counters.get("file_groups_total"):
        shown.append(f"groups {done or 0} of {counters['file_groups_total']}")
    return ", ".join(shown)


def ending_line(job: Json, words: Words) -> str:
    """How a capture ended, or how it stands."""
    state = state_of(job)
    parts = [f"{sign_of(state, words)} {job['job_id']} {state.value}"]
    error = job.get("error")
    if isinstance(error, Mapping) and state is WorkState.FAILED:
        parts.append(f"{error['code']}: {error['message']}")
    counted = counters_text(job.get("totals"))
    return cell("  ".join([*parts, *([counted] if counted else [])]))


def wait_for_capture(
    api: Api, job_id: str, screen: Screen, words: Words, *, limit_s: float | None
) -> Json:
    """Show the progress of a capture until its tree has ended; the job then.

    Raises:
        KeyboardInterrupt: the user stopped waiting; the capture goes on.
        WaitedTooLongError: the limit has passed; the capture goes on.
    """
    clock = api.clock
    began = said = clock.monotonic()
    try:
        while True:
            job = api.get(JOBS, job_id)
            if state_of(job) in ENDED:
                return job
            passed = clock.monotonic() - began
            if limit_s is not None and passed >= limit_s:
                fix = f"follow it with: datarecs capture get {job_id}"
                raise WaitedTooLongError(what=f"capture {job_id}", seconds=limit_s, fix=fix)
            line = f"{words.running} {job['state']} {timedelta(seconds=int(passed))} "
            line += counters_text(job["totals"])
            screen.draw(line.rstrip())
            if not screen.moves and clock.monotonic() - said >= HEARTBEAT.total_seconds():
                said = clock.monotonic()
                screen.say(line.rstrip())
            clock.wait(POLL)
    except KeyboardInterrupt:
        screen.say(
            f"the capture goes on; follow it with: datarecs capture get {job_id}, "
            f"or end it with: datarecs capture cancel {job_id}"
        )
        raise
    finally:
        screen.clear()
