"""The demo `iceberg-kafka` before any platform is started: declarations, events, and its log."""

import json
from pathlib import Path

import pytest

from datarecs_cli.declared_files import check_files
from datarecs_cli.demo import sink_declarations as declared
from datarecs_cli.demo.sink_play import EVENTS, PLANTED, PORTIONS
from datarecs_cli.demo.sink_tasks import SinkProcesses, TaskHistory, Victim, history_of
from datarecs_cli.main import run
from datarecs_core.resources.resource import Kind

UID = "0198a5f0-0000-7000-8000-000000000001"
PLACES = declared.SinkPlaces(
    bootstrap="127.0.0.1:29092",
    security="SASL_PLAINTEXT",
    password_file=Path("/project/.datarecs/tenant-secrets/t/demo-sink"),
    catalog_file=Path('/pro ject/"d: #{x}/lake/catalog.db'),
)


def cycle(task: int, *, uid: str = UID) -> str:
    return _line(event="sink_task_log", message="sink_cycle_started", task=task, sink_uid=uid)


def end(task: int, ending: str) -> str:
    return _line(event="sink_task_ended", ending=ending, task=task, sink_uid=UID)


def _line(**fields: object) -> str:
    return json.dumps(fields) + "\n"


def test_what_the_demo_declares_is_sound(tmp_path: Path) -> None:
    file = tmp_path / "sink.yaml"
    file.write_text(declared.sink_text(PLACES), encoding="utf-8")
    (checked,) = check_files([str(file)])
    assert [one.findings for one in checked.documents] == [(), (), ()]
    kinds = [one.declared.kind for one in checked.documents if one.declared]
    assert kinds == [Kind.CONNECTION, Kind.CONNECTION, Kind.SINK_TABLE]


def test_each_start_sends_the_same_events() -> None:
    values = [json.loads(value) for value in declared.events(range(EVENTS))]
    assert [value["event_id"] for value in values] == list(range(EVENTS))
    assert list(declared.events(range(3))) == list(declared.events(range(3)))


def test_every_event_is_sent_once_and_the_planted_loss_is_one_of_them() -> None:
    assert [number for portion in PORTIONS for number in portion] == list(range(20_000))
    partition, offset = PLANTED
    assert partition in range(declared.PARTITIONS)
    assert offset < EVENTS // declared.PARTITIONS


def test_the_task_that_began_the_newest_cycle_coordinates() -> None:
    lines = [
        cycle(0),
        end(0, "DIED"),
        cycle(1),
    ]
    assert history_of(lines, UID) == TaskHistory(coordinator=1, cycles=2, ended=(0,))


def test_other_sinks_other_ends_and_other_formats_say_nothing() -> None:
    lines = [
        cycle(1, uid="0198a5f0-0000-7000-8000-000000000002"),
        end(1, "CHANGED"),
        f"sink_cycle_started task=1 sink_uid={UID}\n",
        f'["{UID}"]\n',
        "",
    ]
    assert history_of(lines, UID) == TaskHistory()


def test_a_victim_says_what_it_did() -> None:
    assert Victim(number=0, is_coordinator=True).role == "worker and coordinator"
    assert Victim(number=1, is_coordinator=False).role == "worker"


def test_processes_of_other_sinks_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datarecs_cli.demo.sink_tasks.leaves_below", lambda _pid: (11, 12, 13))
    processes = SinkProcesses(
        service_pid=1,
        others=frozenset({12}),
        log=tmp_path / "log",
        sink_uid=UID,
        wait_until=lambda _is_reached, _text: None,
    )
    assert processes.pids() == (11, 13)


def test_an_unknown_template_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["demo", "--template", "lake"]) == 2
    assert "iceberg-kafka" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
