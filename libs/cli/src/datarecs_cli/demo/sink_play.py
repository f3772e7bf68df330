"""The steps of the demo `iceberg-kafka`: land a topic, kill its tasks, prove the table, lose a row.

It uses the platform as any client does; only the topic, its login and the loss are made beside it.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from datarecs_cli.client import ALL, ApiRequest, Json, path_of
from datarecs_cli.demo import sink_declarations as declared
from datarecs_cli.demo.play import (
    INDENT,
    Played,
    Scene,
    apply_file,
    run_job,
    saved_report,
    shown_path,
    timed,
)
from datarecs_cli.demo.sink_tasks import SinkProcesses, Victim
from datarecs_cli.refusals import RefusedError
from datarecs_cli.run_ending import Ending
from datarecs_cli.sink_proof import proof_documents, yaml_of
from datarecs_cli.stack.credentials import LocalSecrets
from datarecs_cli.stack.failures import DemoFailedError
from datarecs_cli.stack.provisioning import BrokerLogin
from datarecs_cli.stack.state import load
from datarecs_connectors.iceberg.local_lake import LocalLake
from datarecs_core.sink.proof import ProofOptions, proof_name
from datarecs_kafka import sink_logins
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.tree import leaves_below

SINKS = "sink-tables"
TABLE = f"{declared.NAMESPACE}.{declared.TABLE}"
PORTIONS = (range(8_000), range(8_000, 14_000), range(14_000, 20_000))
"""Numbers of events: landed in peace, landed over the first kill, over the second."""
EVENTS = PORTIONS[-1].stop
STEP_LIMIT_S = 90.0
"""A killed task holds its partitions for 10 s, and an open transaction for 25 s."""
PLANTED = (2, 1_234)
"""Partition and offset of the row that is deleted."""
_POLL_EVERY = timedelta(seconds=0.2)
_SERVICE = "iceberg-sink"
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class _Landing:
    """The sink at work."""

    scene: Scene
    broker: BrokerLogin
    lake: LocalLake
    processes: SinkProcesses
    group: str

    def send(self, numbers: range) -> None:
        sink_logins.send_values(self.broker.access(), declared.TOPIC, declared.events(numbers))

    def landed(self) -> int:
        """Events that the sink has committed: the topic has one at each offset.

        Sums of the listed commits can be less: one whose coordinator was killed right after the
        snapshot is not listed.
        """
        partitions = self.scene.api.pages(SINKS, declared.SINK, "partitions", limit=ALL, params={})
        return sum(int(str(one["committed"] or 0)) for one in partitions)

    def epoch(self) -> int:
        """Of the coordinator that made the newest commit."""
        (newest,) = self.scene.api.pages(SINKS, declared.SINK, "commits", limit=1, params={})
        return int(str(newest["epoch"]))

    def wait_for(self, rows: int) -> float:
        """Until the table has so many rows; seconds."""
        clock = SystemClock()
        began = clock.monotonic()
        wait_until(lambda: self.landed() >= rows, f"{rows:,} rows in the table")
        return clock.monotonic() - began

    def wait_for_members(self) -> None:
        """Until both tasks read, and the coordinator is one that knows it."""
        access = self.broker.access()
        wait_until(
            lambda: sink_logins.member_count(access, self.group) == declared.TASKS,
            f"{declared.TASKS} members of the group {self.group}",
        )
        cycles = self.processes.history().cycles
        wait_until(lambda: self.processes.history().cycles > cycles + 1, "two more cycles")


def play_sink(scene: Scene) -> Played:
    """Land the topic while its tasks are killed, and prove the table before and after a loss.

    Raises:
        DemoFailedError: a step failed, or a number differs.
        DatarecsError: the API or the broker refused a request or did not answer.
    """
    landing = _prepared(scene)
    _land(landing)
    job = _declare_proof(scene)
    scene.show("  ... the demo compares the topic with the table")
    first = run_job(scene, job, number=1, wanted=_expected("MATCHED", matched=EVENTS))
    scene.show("  ... the demo deletes a row behind the sink's back and compares again")
    landing.lake.delete_row(TABLE, dict(zip(declared.PLACE[1:], PLANTED, strict=True)))
    second = run_job(scene, job, number=2, wanted=_expected("UNMATCHED", matched=EVENTS - 1))
    _show_loss(scene, second)
    reports = (saved_report(scene, first, 1), saved_report(scene, second, 2))
    dot = f" {scene.words.dot} "
    scene.show(f"  report    {dot.join(shown_path(one) for one in reports)}")
    steps = (f"datarecs sink status {declared.SINK}", f"datarecs diff {second.run_id}")
    end = (*steps, "datarecs down")
    scene.show(f"  next      {dot.join(end if scene.stays else ('datarecs up', *end))}")
    return Played(endings=(first, second), reports=reports, mail=None)


def wait_until(is_reached: Callable[[], bool], text: str) -> None:
    """Raises DemoFailedError after the limit of a step."""
    clock = SystemClock()
    deadline = clock.monotonic() + STEP_LIMIT_S
    while not is_reached():
        if clock.monotonic() > deadline:
            raise DemoFailedError(step=text, reason=f"not reached within {STEP_LIMIT_S:.0f} s")
        clock.wait(_POLL_EVERY)


def _prepared(scene: Scene) -> _Landing:
    """A new topic, its login and an empty lake, and the sink that reads and writes them."""
    from datarecs_cli.commands.admin import broker_login

    broker, is_single = broker_login(scene.layout)
    if not is_single:
        raise DemoFailedError(step="the topic", reason="it needs the broker of `datarecs up`")
    _forget_sink(scene)
    secrets = scene.layout.tenant_secrets / scene.tenant_id
    secrets.mkdir(mode=0o700, parents=True, exist_ok=True)
    lake = LocalLake(folder=scene.folder / declared.LAKE_FOLDER, name=declared.CATALOG)
    text = f"topic {declared.TOPIC}, login {declared.LOGIN}, catalog {shown_path(lake.file)}"
    with timed(scene, text):
        access = broker.access()
        sink_logins.create_topic(access, declared.TOPIC, partitions=declared.PARTITIONS)
        password = LocalSecrets(secrets).password(declared.LOGIN)
        sink_logins.create_login(access, declared.LOGIN, [declared.TOPIC], password=password)
        shutil.rmtree(lake.folder, ignore_errors=True)
        lake.create()
    places = declared.SinkPlaces(
        bootstrap=broker.bootstrap,
        security=broker.security,
        password_file=secrets / declared.LOGIN,
        catalog_file=lake.file,
    )
    with timed(scene, f"sink {declared.SINK}: {declared.TASKS} tasks"):
        return _begun(scene, broker, lake, places)


def _begun(
    scene: Scene, broker: BrokerLogin, lake: LocalLake, places: declared.SinkPlaces
) -> _Landing:
    """The sink, once both of its tasks read."""
    service = load(scene.layout.state_file).parts.get(_SERVICE)
    if service is None:
        raise DemoFailedError(step="the sink", reason=f"{_SERVICE} does not run")
    others = frozenset(leaves_below(service.pid))
    file = scene.folder / declared.SINK_FILE
    file.write_text(declared.sink_text(places), encoding="utf-8")
    apply_file(scene, str(file))
    metadata = scene.api.get(SINKS, declared.SINK)["metadata"]
    processes = SinkProcesses(
        service_pid=service.pid,
        others=others,
        log=scene.layout.log(_SERVICE),
        sink_uid=str(metadata["uid"]) if isinstance(metadata, dict) else "",
        wait_until=wait_until,
    )
    landing = _Landing(
        scene=scene,
        broker=broker,
        lake=lake,
        processes=processes,
        group=f"{sink_logins.PREFIX}{processes.sink_uid}",
    )
    landing.wait_for_members()
    return landing


def _forget_sink(scene: Scene) -> None:
    """The sink of an earlier demo; its table is made again."""

    def is_gone() -> bool:
        try:
            scene.api.get(SINKS, declared.SINK)
        except RefusedError as refused:
            if refused.status == _NOT_FOUND:
                return True
            raise
        return False

    if is_gone():
        return
    path, headers = path_of(SINKS, declared.SINK), {"If-Match": "*"}
    with timed(scene, "the sink of an earlier demo is deleted"):
        scene.api.send(ApiRequest(method="DELETE", path=path, headers=headers))
        wait_until(is_gone, "the end of the earlier sink")


def _land(landing: _Landing) -> None:
    """Send the portions; after each kill everything must arrive."""
    quiet, first, second = PORTIONS
    show, processes = landing.scene.show, landing.processes
    landing.send(quiet)
    seconds = landing.wait_for(quiet.stop)
    show(f"  land   {quiet.stop:,} events are {quiet.stop:,} rows after {seconds:.1f} s")
    landing.wait_for_members()
    landing.send(first)
    victim = processes.kill_any()
    _show_kill(landing, 1, victim, first)
    landing.wait_for_members()
    landing.send(second)
    _show_kill(landing, 2, processes.kill(coordinator=not victim.is_coordinator), second)
    rows = landing.lake.count(TABLE)
    if rows != EVENTS:
        raise DemoFailedError(step="landing", reason=f"{rows:,} rows instead of {EVENTS:,}")
    show(f"{INDENT}{EVENTS:,} events in the topic, {rows:,} rows in the table")


def _show_kill(landing: _Landing, number: int, victim: Victim, portion: range) -> None:
    before, epoch = landing.landed(), landing.epoch()
    seconds = landing.wait_for(portion.stop)
    if victim.is_coordinator:
        wait_until(lambda: landing.epoch() > epoch, "a commit of another coordinator")
    text = f"{before:,} of {portion.stop:,} events are rows; all are after {seconds:.1f} s"
    landing.scene.show(f"  kill {number} task {victim.number}, {victim.role}: {text}")


def _declare_proof(scene: Scene) -> str:
    """The job that `datarecs sink proof` prints; its name."""
    documents = proof_documents(scene.api.get(SINKS, declared.SINK), ProofOptions())
    file = scene.folder / declared.PROOF_FILE
    file.write_text(yaml_of(documents) + "\n", encoding="utf-8")
    apply_file(scene, str(file))
    return proof_name(declared.SINK)


def _expected(result: str, *, matched: int) -> Json:
    """Numbers of a comparison of all events."""
    return {
        "result": result,
        "source_row_counts": {"source_0": EVENTS, "source_1": matched},
        "rows_compared": EVENTS,
        "rows_matched": matched,
        "rows_unmatched": EVENTS - matched,
    }


def _show_loss(scene: Scene, ending: Ending) -> None:
    """The one difference is the row that was deleted."""
    items = list(scene.api.pages("runs", ending.run_id, "mismatches", limit=2, params={}))
    keys = [item.get("key") for item in items]
    places = [
        [str(key.get(column)) for column in declared.PLACE] for key in keys if isinstance(key, dict)
    ]
    if places != [[declared.TOPIC, *map(str, PLANTED)]]:
        raise DemoFailedError(step="run 2", reason=f"the lost record is {places}")
    topic, partition, offset = places[0]
    scene.show(f"{INDENT}lost     topic {topic}  partition {partition}  offset {offset}")
