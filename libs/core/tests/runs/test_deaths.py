"""The table of deaths: exit codes, signals and kernel counts, and the one code of each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.deaths import Exits, cause_of_death, java_end_words

KILLED_JAVA, FULL_HEAP, FULL_HEAP_IN_SPARK = -9, 3, 52


@pytest.mark.case("L29")
@pytest.mark.parametrize(
    ("exits", "detail"),
    [
        # Only Java: for every report of its end, and every reaction of the child.
        (Exits(java_exit=KILLED_JAVA), "DRIVER_LOST"),
        (Exits(java_exit=137), "DRIVER_LOST"),
        (Exits(java_exit=-15), "DRIVER_LOST"),
        (Exits(java_exit=-11), "DRIVER_LOST"),
        (Exits(java_exit=134), "DRIVER_LOST"),
        (Exits(java_exit=1), "DRIVER_LOST"),
        (Exits(java_exit=0), "DRIVER_LOST"),
        (Exits(java_lost=True), "DRIVER_LOST"),
        (Exits(java_exit=KILLED_JAVA, child_exit=70), "DRIVER_LOST"),
        (Exits(java_exit=KILLED_JAVA, child_exit=1, has_result=True), "DRIVER_LOST"),
        # The child alone.
        (Exits(child_signal=9), "KILLED"),
        (Exits(child_signal=11), "KILLED"),
        (Exits(child_exit=1), "TERMINATED"),
        (Exits(child_exit=70), "TERMINATED"),
        # Both, in whichever order they went.
        (Exits(child_signal=9, java_exit=KILLED_JAVA), "KILLED"),
        (Exits(child_signal=9, java_lost=True), "KILLED"),
        # Memory, from any reporter.
        (Exits(java_exit=FULL_HEAP), "OUT_OF_MEMORY"),
        (Exits(java_exit=FULL_HEAP_IN_SPARK, child_exit=70), "OUT_OF_MEMORY"),
        (Exits(java_exit=FULL_HEAP, child_signal=9), "OUT_OF_MEMORY"),
        (Exits(memory_error=True, has_result=True), "OUT_OF_MEMORY"),
        (Exits(memory_limit=True, child_signal=9, stopped=True), "OUT_OF_MEMORY"),
        (Exits(java_exit=KILLED_JAVA, oom_kills=True), "OUT_OF_MEMORY"),
        (Exits(child_signal=9, oom_kills=True), "OUT_OF_MEMORY"),
        (Exits(child_exit=1, oom_kills=True), "OUT_OF_MEMORY"),
        # What the supervisor did itself is no evidence.
        (Exits(child_signal=9, stopped=True), None),
        (Exits(java_exit=143, child_signal=15, stopped=True), None),
        (Exits(unresponsive=True, child_signal=9, stopped=True), "UNRESPONSIVE"),
        (Exits(child_exit=75), None),
        (Exits(child_exit=0), None),
        (Exits(child_exit=70, has_result=True), None),
        # Another process of the container ran out of memory, and nothing of this run died.
        (Exits(oom_kills=True), None),
        (Exits(oom_kills=True, child_exit=70, has_result=True), None),
        (Exits(), None),
    ],
)
def test_the_table_of_deaths(exits: Exits, detail: str | None) -> None:
    cause = cause_of_death(exits)
    assert (cause and cause.name) == detail


FLAGS = st.booleans()


@given(
    st.builds(
        Exits,
        child_exit=st.sampled_from([None, 0, 1, 70, 75]),
        child_signal=st.sampled_from([None, 9, 15]),
        java_exit=st.sampled_from([None, 0, 1, 3, 52, 137, -9, -15]),
        java_lost=FLAGS,
        oom_kills=FLAGS,
        memory_limit=FLAGS,
        memory_error=FLAGS,
        unresponsive=FLAGS,
        stopped=FLAGS,
        has_result=FLAGS,
    )
)
def test_every_death_is_a_crash_and_a_dead_java_is_never_overlooked(exits: Exits) -> None:
    cause = cause_of_death(exits)
    assert cause is None or cause.run_code is RunErrorCode.CRASHED
    if exits.java_exit is not None and not exits.stopped:
        assert cause is not None
    if cause is RunDetail.DRIVER_LOST:
        assert exits.java_lost or exits.java_exit is not None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, "Spark's Java process ran out of memory (exit code 3)"),
        (-9, "signal 9 ended Spark's Java process"),
        (137, "signal 9 ended Spark's Java process"),
        (1, "Spark's Java process ended with exit code 1"),
        (None, "Spark's Java process does not answer"),
    ],
)
def test_the_words_name_what_ended_and_how(code: int | None, words: str) -> None:
    assert java_end_words(Exits(java_exit=code)) == words
