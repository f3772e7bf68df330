import os
from pathlib import Path

import pytest

from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.observe import view
from datarecs_cli.stack.process import Identity, start_time
from datarecs_cli.stack.state import Phase, State, save


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path)
    layout.create(as_root=False)
    return layout


def test_a_part_that_is_about_to_be_started_again_is_not_forgotten(layout: Layout) -> None:
    me = Identity(pid=os.getpid(), started=start_time(os.getpid()) or "")
    gone = Identity(pid=1, started="never")
    state = State(
        phase=Phase.READY,
        supervisor=me,
        ports={"postgres": 1, "kafka": 2},
        expected=("postgres", "kafka"),
        parts={"postgres": gone},
    )
    save(layout.state_file, state)
    seen = view(layout)
    assert not seen.is_ready
    assert [(part.name, part.silence) for part in seen.parts] == [
        ("postgres", "its process has ended"),
        ("kafka", "not started yet, or will be restarted soon"),
    ]


def test_without_its_supervisor_a_platform_is_stopped_whatever_the_file_says(
    layout: Layout,
) -> None:
    gone = Identity(pid=1, started="never")
    save(layout.state_file, State(phase=Phase.READY, supervisor=gone, expected=("postgres",)))
    seen = view(layout)
    assert (seen.phase, seen.parts, seen.is_ready) == (Phase.STOPPED, (), False)


def test_a_part_that_was_started_again_says_how_it_ended(layout: Layout) -> None:
    me = Identity(pid=os.getpid(), started=start_time(os.getpid()) or "")
    words = "kafka ended with signal 9; restart 1 in 1 s"
    state = State(
        phase=Phase.STARTING,
        supervisor=me,
        ports={"postgres": 1, "kafka": 2},
        expected=("postgres", "kafka"),
        restarts={"kafka": words},
    )
    save(layout.state_file, state)
    assert [part.restarted for part in view(layout).parts] == [None, words]
