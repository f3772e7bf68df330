"""What `datarecs capture` shows: a tree with states and counters, and the progress of a wait."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from datarecs_cli.client import Api, Json
from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.follow import POLL_PATIENCE_S, is_passing
from datarecs_cli.output import ASCII, Column, Words, cell
from datarecs_cli.refusals import (
    RefusedError,
    ServerUnreachableError,
    UnexpectedAnswerError,
    WaitedTooLongError,
)
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
    "tables_failed": "failed tables",
    "views_failed": "failed views",
    "entries_left_out": "left out",
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
_FAILURES: Mapping[str, str] = {"PLAN_TABLE": "tables_failed", "PLAN_VIEW": "views_failed"}
"""Counters of failed parts, by their kind."""
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
    """The counters of the item alone; an ended group and a failed table count above as one."""
    counters = item["counters"]
    counted = dict(counters) if isinstance(counters, Mapping) else {}
    if item["kind"] == "EXEC_FILE_GROUP" and state_of(item) in ENDED:
        is_done = state_of(item) is WorkState.SUCCEEDED
        counted["file_groups_completed" if is_done else "file_groups_failed"] = 1
    if item["kind"] in _FAILURES and state_of(item) is WorkState.FAILED:
        counted[_FAILURES[str(item["kind"])]] = 1
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


def failed_parts(items: Sequence[Json]) -> list[Json]:
    """The failed items of a tree, each with everything above it; the order stays."""
    failed: list[Json] = []
    parents: set[int] = set()
    for item in reversed(items):
        depth = int(str(item["depth"]))
        if depth in parents or state_of(item) is WorkState.FAILED:
            failed.append(item)
            parents.discard(depth)
            parents.add(depth - 1)
    return failed[::-1]


def failed_hint(job: Json) -> str:
    """The command that lists the failed parts of a capture; empty if none has failed."""
    totals = job.get("totals")
    counted = totals if isinstance(totals, Mapping) else {}
    if job["kind"] != "PLAN_CONNECTOR" or not any(map(counted.get, _FAILURES.values())):
        return ""
    return f"list what failed with: datarecs capture tree {job['job_id']} --failed"


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
        ServerUnreachableError: no answer for five minutes; the capture goes on.
    """
    watch, clock = _Watch(api, job_id, screen), api.clock
    began = said = clock.monotonic()
    try:
        while True:
            job = watch.read()
            if job is not None and state_of(job) in ENDED:
                return job
            passed = clock.monotonic() - began
            if limit_s is not None and passed >= limit_s:
                fix = f"follow it with: datarecs capture get {job_id}"
                raise WaitedTooLongError(what=f"capture {job_id}", seconds=limit_s, fix=fix)
            if job is not None:
                line = _progress_line(job, words, timedelta(seconds=int(passed)))
                screen.draw(line)
                if not screen.moves and clock.monotonic() - said >= HEARTBEAT.total_seconds():
                    said = clock.monotonic()
                    screen.say(line)
            clock.wait(POLL)
    except KeyboardInterrupt:
        screen.say(
            f"the capture goes on; follow it with: datarecs capture get {job_id}, "
            f"or end it with: datarecs capture cancel {job_id}"
        )
        raise
    finally:
        screen.clear()


def _progress_line(job: Json, words: Words, passed: timedelta) -> str:
    return f"{words.running} {job['state']} {passed} {counters_text(job['totals'])}".rstrip()


class _Watch:
    """Reads one job until it has ended, across lost connections."""

    def __init__(self, api: Api, job_id: str, screen: Screen) -> None:
        self._api, self._job_id, self._screen = api, job_id, screen
        self._answered = api.clock.monotonic()
        self._is_lost = False

    def read(self) -> Json | None:
        """The job; None while the server does not answer.

        Raises:
            RefusedError: the job is unknown, or the key may not read it.
            ServerUnreachableError, UnexpectedAnswerError: no answer for five minutes.
        """
        clock = self._api.clock
        try:
            job = self._api.get(JOBS, self._job_id)
        except (ServerUnreachableError, UnexpectedAnswerError, RefusedError) as lost:
            if not is_passing(lost):
                raise
            if clock.monotonic() - self._answered >= POLL_PATIENCE_S:
                lost.fix = f"the capture goes on; show it with: datarecs capture get {self._job_id}"
                raise
            if not self._is_lost:
                self._is_lost = True
                self._screen.say(f"connection lost ({cell(str(lost))}); the capture goes on")
            return None
        self._answered, self._is_lost = clock.monotonic(), False
        return job
