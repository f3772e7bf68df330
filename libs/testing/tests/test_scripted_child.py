from collections.abc import Iterator, Mapping
from datetime import timedelta

import pytest

from datarecs_application.ports.supervising import ChildEnd, ChildProcess
from datarecs_testing.conformance.child_process import ChildProcessConformance, follow
from datarecs_testing.scripted_child import ChildSide, ScriptedChild


class TestScriptedChild(ChildProcessConformance):
    @pytest.fixture
    def child(self) -> Iterator[ChildProcess]:
        child = ScriptedChild(follow)
        yield child
        child.kill()

    def test_a_script_that_fails_is_exit_code_1(self) -> None:
        def failing(_plan: Mapping[str, object], _side: ChildSide) -> int:
            raise ValueError("a defect of the child")

        child = ScriptedChild(failing)
        child.start(b"{}")
        assert child.frames(timedelta(seconds=5)) is None
        assert child.ended() == ChildEnd(exit_code=1)
