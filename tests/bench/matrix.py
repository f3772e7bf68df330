"""Every combination of the matrix, on a heap of 1 GiB: which answers are true, time and memory.

A separate process compares, in one warm session, while this one adds up what it and everything
below it hold. Where it fails or exceeds its time it is replaced by a new one, and the next
combination has its turn. A file of answers lets a run that was stopped go on where it was. Ends
with 1 when any combination had no answer or a wrong one.
"""

import argparse
import json
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.results import StageResults
from datarecs_core.jobs.definition import GIB
from datarecs_testing.figures import machine, replace_part
from datarecs_testing.row_matrix.checks import faults_of
from datarecs_testing.row_matrix.combinations import Combination, all_combinations
from datarecs_testing.row_matrix.comparing import compare_data
from datarecs_testing.row_matrix.files import Data, write_data
from datarecs_testing.row_matrix.truth import truth_of
from tests.bench.compare import start_spark
from tests.bench.contest import versions
from tests.bench.memory import process_tree, tree_bytes

SAMPLE_EVERY_S = 0.1
MEMORY_BYTES = 2 * GIB
"""Of a run; half of it is the heap."""
_ERROR_CHARACTERS = 300
Answer = tuple[StagePlan, StageResults]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One comparison: its answer, or why there is none."""

    answer: Answer | None
    error: str
    seconds: float
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What the table says of one combination."""

    name: str
    error: str
    """Why there is no answer; empty where there is one."""
    seconds: float
    peak_bytes: int
    faults: Sequence[str] = ()

    @property
    def is_good(self) -> bool:
        return not self.error and not self.faults

    @property
    def verdict(self) -> str:
        if self.error:
            return "no answer"
        return f"wrong ({len(self.faults)})" if self.faults else "true"


@dataclass(slots=True, kw_only=True)
class Comparer:
    """The process that compares; started when it is needed."""

    scratch: Path
    limit_s: float
    _process: multiprocessing.process.BaseProcess | None = None
    _connection: Connection | None = None
    _starts: int = 0

    def compare(self, data: Data) -> Attempt:
        """The answer; after an error the process is replaced."""
        process, connection = self._started()
        with suppress(BrokenPipeError):
            connection.send(data)
        began, peak = perf_counter(), 0
        while not connection.poll(SAMPLE_EVERY_S):
            peak = max(peak, tree_bytes(process.pid or 0))
            if perf_counter() - began > self.limit_s:
                self.end()
                error = f"no answer within {self.limit_s:.0f} s"
                return Attempt(answer=None, error=error, seconds=self.limit_s, peak_bytes=peak)
        seconds = perf_counter() - began
        try:
            answer = connection.recv()
        except (EOFError, ConnectionResetError):
            answer = "the process ended"
        if isinstance(answer, str):
            self.end()
            return Attempt(answer=None, error=answer, seconds=seconds, peak_bytes=peak)
        return Attempt(answer=answer, error="", seconds=seconds, peak_bytes=peak)

    def end(self) -> None:
        """Kill the process and everything below it; safe to repeat."""
        if self._process is not None and self._process.pid is not None:
            for pid in list(process_tree(self._process.pid)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.join()
        self._process = None

    def _started(self) -> tuple[multiprocessing.process.BaseProcess, Connection]:
        if self._process is None or self._connection is None:
            spawning = multiprocessing.get_context("spawn")
            self._connection, other = spawning.Pipe()
            self._starts += 1
            folder = self.scratch / f"session-{self._starts}"
            self._process = spawning.Process(target=answer_questions, args=(other, folder))
            self._process.start()
            other.close()
            self._connection.recv()  # it is ready
        return self._process, self._connection


def answer_questions(connection: Connection, folder: Path) -> None:
    """What the process does: one answer or one error for every question."""
    folder.mkdir()
    runtime = start_spark(folder, MEMORY_BYTES)
    connection.send("ready")
    while True:
        data = connection.recv()
        try:
            connection.send(compare_data(runtime, data, data.root / "differences"))
        except Exception as error:  # noqa: BLE001 - the table says which
            connection.send(f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS])


@contextmanager
def comparer(scratch: Path, limit_s: float) -> Iterator[Comparer]:
    made = Comparer(scratch=scratch, limit_s=limit_s)
    try:
        yield made
    finally:
        made.end()


def line_of(comparing: Comparer, combination: Combination, rows: int) -> Line:
    """Write the files, compare them, and check the answer."""
    with tempfile.TemporaryDirectory(prefix="data-", dir=comparing.scratch) as name:
        data = write_data(combination, Path(name), rows=rows)
        attempt = comparing.compare(data)
        faults: Sequence[str] = ()
        if attempt.answer is not None:
            with truth_of(data, Path(name)) as truth:
                faults = faults_of(truth, *attempt.answer)
    return Line(
        name=combination.name,
        error=attempt.error,
        seconds=attempt.seconds,
        peak_bytes=attempt.peak_bytes,
        faults=faults,
    )


def stored_lines(answers: Path | None) -> dict[str, Line]:
    """By name the true answers of earlier runs; others are compared again."""
    if answers is None or not answers.exists():
        return {}
    texts = answers.read_text(encoding="utf-8").splitlines()
    lines = [Line(**json.loads(text)) for text in texts]
    return {line.name: line for line in lines if line.is_good}


def store_line(answers: Path | None, line: Line) -> None:
    if answers is not None:
        with answers.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(line)) + "\n")


def page_of(lines: Sequence[Line], rows: int, load_before: float) -> str:
    """The table as Markdown, and below it what is wrong."""
    good = sum(each.is_good for each in lines)
    facts = [*machine(load_before), ("versions", versions())]
    facts.append(("true answers", f"{good} of {len(lines)}"))
    facts.append(("highest peak", f"{max(_gib(each) for each in lines):.2f} GiB"))
    text = [
        f"## Matrix of combinations, {rows:,} keys, heap 1 GiB",
        "",
        *(f"- {name}: {value}" for name, value in facts),
        "",
        "| combination | answer | seconds | peak GiB |",
        "| --- | --- | --: | --: |",
        *(
            f"| {each.name.replace('_', ' ')} | {each.verdict}"
            f" | {each.seconds:.1f} | {_gib(each):.2f} |"
            for each in lines
        ),
    ]
    return "\n".join(text) + "\n"


def report(line: Line) -> None:
    """On the terminal, since a run takes long."""
    sys.stderr.write(f"{line.verdict}: {line.name}\n")
    for fault in (*line.faults, line.error):
        sys.stderr.write(f"  {fault}\n" if fault else "")


def _gib(line: Line) -> float:
    return line.peak_bytes / GIB


def main() -> int:
    """Print the table; 1 when an answer is missing or wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.matrix", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="keys of each source")
    parser.add_argument("--only", default="", help="combinations with this text in their name")
    parser.add_argument("--seconds", type=float, default=600, help="most for one comparison")
    parser.add_argument("--write", type=Path, help="a page whose part on this work to replace")
    parser.add_argument("--answers", type=Path, help="file of answers; true ones are not repeated")
    options = parser.parse_args()
    chosen = [each for each in all_combinations() if options.only in each.name]
    if not chosen:
        parser.error(f"no combination has {options.only!r} in its name")
    load_before = os.getloadavg()[0]
    known = stored_lines(options.answers)
    lines = []
    with (
        tempfile.TemporaryDirectory(prefix="datarecs-bench-") as name,
        comparer(Path(name), options.seconds) as comparing,
    ):
        for combination in chosen:
            line = known.get(combination.name)
            if line is None:
                line = line_of(comparing, combination, options.rows)
                store_line(options.answers, line)
            lines.append(line)
            report(line)
    text = page_of(lines, options.rows, load_before)
    sys.stdout.write(text)
    if options.write:
        replace_part(options.write, text)
    return 0 if all(each.is_good for each in lines) else 1


if __name__ == "__main__":
    raise SystemExit(main())
