"""The launcher over a Kubernetes API in a dictionary, which passes the suite of the real one."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from datarecs_application.ports.execution import Accepted, Gone, Rejected, Unavailable
from datarecs_argo.kubernetes import Access, KubernetesApi
from datarecs_argo.launcher import ArgoLauncher
from datarecs_argo.pace import CreationPace
from datarecs_testing.clock import ManualClock
from datarecs_testing.conformance.kubernetes import (
    Cluster,
    KubernetesConformance,
    an_argo_run,
)
from datarecs_testing.kubernetes import TOKEN, FakeKubernetes


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeCluster(Cluster):
    server: FakeKubernetes
    clock: ManualClock

    def limit(self, workflows: int | None) -> None:
        self.server.quota = workflows

    def rest(self) -> None:
        self.clock.advance(timedelta(minutes=1))


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    token_file = tmp_path / "token"
    token_file.write_text(f"{TOKEN}\n", encoding="utf-8")
    server, clock = FakeKubernetes(), ManualClock()
    access = Access(
        url="https://cluster.test", token_file=token_file, ca_file=None, namespace="recon"
    )
    api = KubernetesApi(access, clock, transport=server.transport)
    launcher = ArgoLauncher(api=api, pace=CreationPace(5, clock), page=2)
    return FakeCluster(launcher=launcher, token_file=token_file, server=server, clock=clock)


class TestConformance(KubernetesConformance):
    pass


@pytest.mark.case("L28")
@pytest.mark.parametrize(
    "outage", [429, 500, 503, 408, 302, httpx.ConnectError("refused"), httpx.ReadTimeout("slow")]
)
def test_a_busy_or_silent_api_decides_nothing(
    cluster: FakeCluster, outage: int | Exception
) -> None:
    run = an_argo_run()
    cluster.server.outages = [outage]
    answer = cluster.launcher.create(run, lease_epoch=1)
    assert isinstance(answer, Unavailable)
    assert "https://cluster.test" in answer.reason
    cluster.rest()
    assert cluster.launcher.create(run, lease_epoch=1) == Accepted()


def test_after_a_failure_the_api_is_spared_for_a_growing_time(cluster: FakeCluster) -> None:
    cluster.server.outages = [503, 503]
    for pause in (1, 2):
        assert isinstance(cluster.launcher.live(), Unavailable)
        sent = len(cluster.server.requests)
        cluster.clock.advance(timedelta(seconds=pause - 0.1))
        answer = cluster.launcher.live()
        assert isinstance(answer, Unavailable)
        assert "rests" in answer.reason
        assert len(cluster.server.requests) == sent
        cluster.clock.advance(timedelta(seconds=0.2))
    assert cluster.launcher.live() == []


def test_the_api_says_itself_how_long_it_rests(cluster: FakeCluster) -> None:
    cluster.server.outages = [429]
    cluster.launcher.live()
    cluster.clock.advance(timedelta(seconds=6.9))
    assert isinstance(cluster.launcher.live(), Unavailable)
    cluster.clock.advance(timedelta(seconds=0.2))
    assert cluster.launcher.live() == []


@pytest.mark.case("L28")
def test_a_lost_answer_to_a_create_is_resolved_by_name(cluster: FakeCluster) -> None:
    run = an_argo_run()
    cluster.server.unanswered = ["POST"]
    assert isinstance(cluster.launcher.create(run, lease_epoch=1), Unavailable)
    cluster.rest()
    assert cluster.launcher.create(run, lease_epoch=1) == Accepted()
    assert len(cluster.server.workflows) == 1


def test_a_missing_namespace_is_named(cluster: FakeCluster) -> None:
    cluster.server.namespaces = frozenset()
    answer = cluster.launcher.create(an_argo_run(), lease_epoch=1)
    assert isinstance(answer, Rejected)
    assert 'namespaces "recon" not found' in answer.reason


@pytest.mark.parametrize("status", [403, 404])
def test_nothing_is_gone_because_a_list_is_refused(cluster: FakeCluster, status: int) -> None:
    run = an_argo_run()
    cluster.launcher.create(run, lease_epoch=1)
    cluster.server.outages = [status]
    answer = cluster.launcher.observe([run.execution_name])
    assert isinstance(answer, Unavailable)
    assert str(status) in answer.reason


def test_an_observation_that_is_cut_off_decides_nothing(cluster: FakeCluster) -> None:
    run = an_argo_run()
    cluster.server.outages = [200, 503]
    assert isinstance(cluster.launcher.observe([run.execution_name]), Unavailable)


def test_a_list_that_expired_is_read_again_once(cluster: FakeCluster) -> None:
    run = an_argo_run()
    cluster.launcher.create(run, lease_epoch=1)
    cluster.server.outages = [410]
    live = cluster.launcher.live()
    assert not isinstance(live, Unavailable)
    assert [one.run_id for one in live] == [run.run_id]
    cluster.server.outages = [410, 410]
    assert isinstance(cluster.launcher.live(), Unavailable)


def test_a_stop_that_is_forbidden_is_tried_again(cluster: FakeCluster) -> None:
    cluster.server.outages = [403]
    answer = cluster.launcher.stop("recon-a-b", force=False)
    assert isinstance(answer, Unavailable)
    assert cluster.launcher.stop("recon-a-b", force=False) == Gone()


def test_a_missing_token_is_no_crash(cluster: FakeCluster) -> None:
    cluster.token_file.unlink()
    answer = cluster.launcher.live()
    assert isinstance(answer, Unavailable)
    assert "token" in answer.reason
    assert cluster.server.requests == []
