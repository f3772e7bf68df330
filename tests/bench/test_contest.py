"""A contestant that dies has its code as figure, and the others go on."""

import os
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Event

import pytest

from datarecs_testing.figures import page
from tests.bench.contest import (
    GIB,
    WARMING,
    Compare,
    Contest,
    Contestant,
    Result,
    at_once,
    figures_of,
    measure,
)
from tests.bench.data import Case, Counts, Data
from tests.bench.memory import process_tree, tree_bytes

DATA = Data(rows=100, share=0.1)


def answer(counts: Counts) -> Counts:
    return counts


def fail() -> Counts:
    raise MemoryError


def end_process() -> Counts:
    os._exit(7)


def hang() -> Counts:
    Event().wait()
    raise AssertionError


def start_nothing(_: ExitStack) -> Compare:
    raise FileNotFoundError


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of contestants import this module by its name."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])


def contest_of(folder: Path, **compared: Compare) -> Contest:
    contestants = tuple(
        Contestant(name=name, prepare=partial(at_once, compare))
        for name, compare in compared.items()
    )
    return Contest(
        contestants=contestants,
        case=Case(data=DATA, files=(), out=folder / "out"),
        truth=DATA.truth,
    )


def rest() -> None:
    """Nothing to wait for: no time counts here."""


def test_who_fails_or_ends_is_out_and_the_others_go_on(tmp_path: Path) -> None:
    right = partial(answer, DATA.truth)
    contest = contest_of(tmp_path, peer=right, fails=fail, ends=end_process, last=right)
    results = measure(contest, 2, settle=rest)
    deaths = {name: result.death for name, result in results.items()}
    assert deaths == {"peer": None, "fails": "MemoryError", "ends": "exit code 7", "last": None}
    assert [len(result.seconds) for result in results.values()] == [2, 0, 0, 2]
    assert len(results["last"].peaks) == WARMING
    assert min(results["last"].peaks) > 0


def test_who_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    results = measure(contest_of(tmp_path, hangs=hang), 1, time_limit_s=0.1, settle=rest)
    assert results["hangs"].death == "no answer in 0.1 s"


def test_who_does_not_start_is_out(tmp_path: Path) -> None:
    contest = replace(
        contest_of(tmp_path), contestants=(Contestant(name="absent", prepare=start_nothing),)
    )
    assert measure(contest, 1, settle=rest)["absent"].death == "FileNotFoundError"


def test_who_counts_something_else_leaves_no_figures(tmp_path: Path) -> None:
    wrong = replace(DATA.truth, changed=0)
    contest = contest_of(tmp_path, wrong=partial(answer, wrong))
    with pytest.raises(RuntimeError, match="disagree"):
        measure(contest, 1, settle=rest)


def test_memory_of_a_process_includes_what_it_started() -> None:
    before = tree_bytes(os.getpid())
    code = "data = bytearray(b'x') * 50_000_000; print(flush=True); input()"
    with Popen([sys.executable, "-c", code], stdin=PIPE, stdout=PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert child.pid in process_tree(os.getpid())
        assert tree_bytes(os.getpid()) - before > 40_000_000
        child.communicate(b"\n")


def test_figures_are_ratios_to_the_first_turn_by_turn_then_the_highest_memory() -> None:
    results = {
        "peer": Result(seconds=[1, 2], peaks=[GIB]),
        "ours": Result(seconds=[2, 2], peaks=[GIB, 3 * GIB]),
        "dead": Result(peaks=[GIB], death="OUT_OF_MEMORY"),
    }
    lines = page("Rows", figures_of(results, {"dead": 2}, {"ours": 2}), []).splitlines()[5:]
    assert lines == [
        "| peer | 1.00 x | 1.00 x | 1.00 x |  |",
        "| ours | 1.50 x | 1.00 x | 2.00 x |  |",
        "| dead | died: OUT_OF_MEMORY |  |  | ≤ 2 x, missed |",
        "| peer, peak memory | 1.00 GiB | 1.00 GiB | 1.00 GiB |  |",
        "| ours, peak memory | 3.00 GiB | 3.00 GiB | 3.00 GiB | ≤ 2 GiB, missed |",
        "| dead, peak memory | 1.00 GiB | 1.00 GiB | 1.00 GiB |  |",
    ]


def test_where_the_first_died_the_others_show_seconds() -> None:
    results = {"peer": Result(death="exit code 7"), "ours": Result(seconds=[1], peaks=[])}
    lines = page("Rows", figures_of(results, {}, {}), []).splitlines()[5:]
    assert lines == [
        "| peer | died: exit code 7 |  |  |  |",
        "| ours | 1.00 s | 1.00 s | 1.00 s |  |",
    ]
