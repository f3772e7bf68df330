"""Types and files that are rarely alike: what the oracle answers to each case of the table."""

from pathlib import Path
from uuid import UUID

import pytest

from datarecs_application.comparison import Answer, Means, Question, answer
from datarecs_application.ports.comparing import Connector
from datarecs_connectors.extracted import rows_of
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.faults import PlanRefusedError
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import Source
from datarecs_memory.engine import MemoryEngine
from datarecs_testing.clock import ManualClock
from datarecs_testing.odd_types.case import OddCase, differences_of, job_of_case, write_files
from datarecs_testing.odd_types.table import cases
from datarecs_testing.silent_reporter import SilentReporter
from datarecs_testing.tables import NOON


class Oracle:
    """Answers a case over files below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: dict[str, Connector] = {}
        self.engine = MemoryEngine(lambda scan: rows_of(self._opened[scan.source], scan))

    def answer(self, case: OddCase) -> Answer:
        write_files(case, self._folder)
        means = Means(
            connect=self._connect,
            engine=lambda _: self.engine,
            clock=ManualClock(),
            extracts=str(self._folder / "extracts"),
        )
        job = job_of_case(case)
        question = Question(job=job, job_uid=UUID(int=1), spec_hash="sha256:" + 64 * "0")
        return answer(question, means, SilentReporter())

    def _connect(self, source: Source) -> Connector:
        policy = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
        around = Surroundings(roots=(self._folder,), policy=policy, now=lambda: NOON, any_path=True)
        self._opened[source.name] = open_connector(source, None, {}, surroundings=around)
        return self._opened[source.name]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_oracle_answers_what_a_case_says(case: OddCase, tmp_path: Path) -> None:
    oracle = Oracle(tmp_path)
    if case.refused is not None:
        with pytest.raises(PlanRefusedError, match=case.refused):
            oracle.answer(case)
        return
    result = oracle.answer(case)
    assert differences_of(result, oracle.engine.differences) == case.differences
    assert result.outcome.verdict is case.verdict


def test_every_case_has_a_unique_name() -> None:
    names = [case.name for case in cases()]
    assert len(set(names)) == len(names)
