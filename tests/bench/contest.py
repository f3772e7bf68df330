"""Contestants of a comparison in turn, each in a separate process that stays warm.

A separate process can die or hang without ending the others, and the memory of everything below
it is one contestant's. Memory is sampled in the turns that warm: reading it slows a process down.
"""

import os
import signal
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter

from datarecs_core.errors.base import DatarecsError
from datarecs_testing.figures import Figure, machine, settled
from tests.bench.data import Case, Counts
from tests.bench.memory import process_tree, tree_bytes

GIB = 1024**3
WARMING = 4
"""Turns, after which code is loaded and memory is at its size: Spark has two processes in turn."""
TIME_LIMIT_S = 300.0
"""Of one turn unless another is given, and of a contestant's start."""
COMPARE, STOP = "compare", "stop"
_SAMPLE_EVERY_S = 0.1
_END_LIMIT_S = 30.0
_CHUNK = 2**24

Compare = Callable[[], Counts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """Who compares; everything in here is sent to its process."""

    name: str
    prepare: Callable[[ExitStack], Compare]
    """Called once in the process; the stack closes what it opens."""
    is_slow: bool = False
    """It takes minutes: one turn warms, one is measured."""


def at_once(compare: Compare, _: ExitStack) -> Compare:
    """Of a contestant with nothing to start: use with `partial`."""
    return compare


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    contestants: Sequence[Contestant]
    case: Case
    truth: Counts | None = None
    """None: contestants are compared with one another."""
    files: Sequence[Path] = ()
    """Further files to hold in the machine's memory beside the case's."""


@dataclass(slots=True, kw_only=True)
class Result:
    """Of one contestant."""

    seconds: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    """Bytes, one entry per warming turn."""
    death: str | None = None
    """Error code, exit code or time limit; the contestant had no further turn."""
    strategy: str = ""


def serve(prepare: Callable[[ExitStack], Compare], pipe: Connection) -> None:
    """The process of a contestant: a comparison per request, until it receives STOP."""
    try:
        with ExitStack() as stack:
            compare = prepare(stack)
            pipe.send(None)
            while pipe.recv() != STOP:
                began = perf_counter()
                counts = compare()
                pipe.send((perf_counter() - began, counts))
    except Exception as cause:  # noqa: BLE001  a process entry: the contest goes on without it
        sys.stderr.write(f"{type(cause).__name__}: {cause}\n")
        pipe.send(cause.code.name if isinstance(cause, DatarecsError) else type(cause).__name__)


class Running:
    """A contestant's process, seen from the contest."""

    def __init__(self, contestant: Contestant, time_limit_s: float) -> None:
        self.contestant, self.time_limit_s = contestant, time_limit_s
        self.result = Result()
        context = get_context("spawn")
        self._pipe, inner = context.Pipe()
        self._process = context.Process(target=serve, args=(contestant.prepare, inner))
        self._process.start()
        inner.close()
        self._receive(TIME_LIMIT_S, is_sampled=False)

    def has_turn(self, turn: int) -> bool:
        return self.result.death is None and (not self.contestant.is_slow or turn in {0, WARMING})

    def compare(self, turn: int) -> Counts | None:
        """One turn; None where the contestant died in it."""
        is_warming = turn < WARMING
        with suppress(BrokenPipeError):
            self._pipe.send(COMPARE)
        message = self._receive(self.time_limit_s, is_sampled=is_warming)
        if message is None:
            return None
        seconds, counts = message
        if not is_warming:
            self.result.seconds.append(seconds)
        self.result.strategy = counts.strategy
        return counts

    def stop(self) -> None:
        with suppress(BrokenPipeError):
            self._pipe.send(STOP)
        self._process.join(_END_LIMIT_S)
        self._kill()

    def _receive(self, limit_s: float, *, is_sampled: bool) -> tuple[float, Counts] | None:
        ends, peak = perf_counter() + limit_s, 0
        interval = _SAMPLE_EVERY_S if is_sampled else limit_s
        while not (has_message := self._pipe.poll(interval)) and perf_counter() < ends:
            peak = max(peak, tree_bytes(self._pid))
        if is_sampled:
            self.result.peaks.append(max(peak, tree_bytes(self._pid)))
        if not has_message:
            self._bury(f"no answer in {limit_s:g} s")
            return None
        try:
            message: tuple[float, Counts] | str | None = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            self._process.join(_END_LIMIT_S)
            self._bury(f"exit code {self._process.exitcode}")
            return None
        if isinstance(message, str):
            self._bury(message)
            return None
        return message

    def _bury(self, code: str) -> None:
        self.result.death = code
        self._kill()

    def _kill(self) -> None:
        if not self._process.is_alive():
            return
        for pid in list(process_tree(self._pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.join()

    @property
    def _pid(self) -> int:
        return self._process.pid or 0


@contextmanager
def started_all(contest: Contest, time_limit_s: float) -> Iterator[Sequence[Running]]:
    with ExitStack() as stack:
        processes = []
        for contestant in contest.contestants:
            process = Running(contestant, time_limit_s)
            stack.callback(process.stop)
            processes.append(process)
        yield processes


def measure(
    contest: Contest,
    turns: int,
    *,
    time_limit_s: float = TIME_LIMIT_S,
    settle: Callable[[], None] = settled,
) -> Mapping[str, Result]:
    """Compare in turn, each contestant once the machine has come to rest.

    Args:
        contest: its first contestant is the one that figures are ratios to.
        turns: measured ones, after those that warm.
        time_limit_s: of each turn.
        settle: waits until the machine has come to rest.

    Returns:
        By the contestant's name, in the contest's order.

    Raises:
        RuntimeError: a contestant counted something else.
    """
    with started_all(contest, time_limit_s) as processes:
        for turn in range(turns + WARMING):
            counts = {} if contest.truth is None else {"the truth": contest.truth}
            for process in processes:
                if not process.has_turn(turn):
                    continue
                settle()
                hold_files((*contest.case.all_files, *contest.files))
                contest.case.clear()
                answer = process.compare(turn)
                if answer is not None:
                    counts[process.contestant.name] = answer
            if len(set(counts.values())) > 1:
                raise RuntimeError(f"the contestants disagree: {counts}")
    return {process.contestant.name: process.result for process in processes}


def hold_files(files: Sequence[Path]) -> None:
    """Read them: a machine at rest may have dropped them from its memory."""
    for file in files:
        with file.open("rb", buffering=0) as stream:
            while stream.read(_CHUNK):
                pass


def ratio(name: str, seconds: Sequence[float], peer: Sequence[float], goal: float | None) -> Figure:
    """Turn by turn; of the first turn alone where the contestant had one."""
    values = tuple(one / other for one, other in zip(seconds, peer, strict=False))
    return Figure(name=name, unit="x", values=values, target=goal)


def figures_of(
    results: Mapping[str, Result],
    goals: Mapping[str, float | None],
    peak_goals: Mapping[str, float | None],
) -> list[Figure]:
    """Ratios to the first contestant, or seconds where it died; then peaks of memory."""
    peer = next(iter(results.values()))
    figures = []
    for name, result in results.items():
        goal = goals.get(name)
        if result.death is not None:
            figures.append(Figure(name=name, unit="x", values=(), target=goal, death=result.death))
        elif peer.death is not None:
            figures.append(Figure(name=name, unit="s", values=tuple(result.seconds)))
        else:
            figures.append(ratio(name, result.seconds, peer.seconds, goal))
    for name, result in results.items():
        if result.peaks:
            peak = (max(result.peaks) / GIB,)
            goal = peak_goals.get(name)
            figures.append(
                Figure(name=f"{name}, peak memory", unit="GiB", values=peak, target=goal)
            )
    return figures


def facts_of(
    results: Mapping[str, Result], load_before: float, further: Sequence[tuple[str, str]] = ()
) -> list[tuple[str, str]]:
    """The text above the figures."""
    medians = [
        f"{name} {statistics.median(result.seconds):.2f} s"
        for name, result in results.items()
        if result.seconds and result.death is None
    ]
    strategies = [
        (f"{name} chose", result.strategy) for name, result in results.items() if result.strategy
    ]
    return [
        *machine(load_before),
        ("versions", versions()),
        *further,
        *strategies,
        ("turns", str(max(len(result.seconds) for result in results.values()))),
        ("medians", ", ".join(medians)),
    ]


def versions() -> str:
    packages = ("duckdb", "polars", "pyspark", "numpy", "pyarrow")
    return ", ".join(f"{each} {version(each)}" for each in packages if find_spec(each))
