"""Verbs of a running sink: a commit on request, a pause, a drain."""

from datetime import timedelta

import pytest

from datarecs_core.sink.checkpoint import TaskWish
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.definition import CommitPolicy
from datarecs_testing.sink_house import NAME, SinkHouse, a_sink


def test_a_request_begins_a_cycle_before_the_interval() -> None:
    house = SinkHouse(a_sink(commit=CommitPolicy(interval=timedelta(hours=1))))
    task = house.task()
    house.send(5)
    house.run_for(timedelta(seconds=3), task)
    house.memory.request_commit()
    house.run_for(timedelta(seconds=5), task)
    assert house.mistakes() == ""
    assert len(house.memory.commits) == 1


def test_a_request_from_before_the_process_is_served_once() -> None:
    house = SinkHouse(a_sink(commit=CommitPolicy(interval=timedelta(hours=1))))
    house.send(5)
    house.memory.request_commit()
    first = house.task()
    house.run_for(timedelta(seconds=10), first)
    assert len(house.memory.commits) == 1
    assert house.memory.stored.checkpoint.commit_requests == 1
    first.finish()
    house.kill(first)
    house.run_for(timedelta(seconds=30), house.task())
    assert len(house.memory.commits) == 1


def test_a_pause_commits_what_was_read_and_reads_nothing_more() -> None:
    house = SinkHouse(a_sink(commit=CommitPolicy(interval=timedelta(hours=1))))
    tasks = (house.task(), house.task())
    house.run_for(timedelta(seconds=5), *tasks)
    house.send(5)
    house.send(5, partition=1)
    house.run_for(timedelta(seconds=1), *tasks)
    house.memory.wish(TaskWish.PAUSE)
    house.run_for(timedelta(seconds=30), *tasks)
    assert house.mistakes() == ""
    assert len(house.memory.commits) == 1
    house.send(5)
    house.run_for(timedelta(seconds=30), *tasks)
    assert len(house.memory.commits) == 1
    assert house.memory.reports[-1].is_paused
    house.memory.wish(TaskWish.RUN)
    house.memory.request_commit()
    house.run_for(timedelta(seconds=30), *tasks)
    house.memory.request_commit()
    house.run_for(timedelta(seconds=30), *tasks)
    assert house.mistakes() == ""


@pytest.mark.case("I28")
def test_a_pause_longer_than_the_retention_of_the_control_topic_misses_nothing() -> None:
    house = SinkHouse()
    task = house.task()
    house.send(5)
    house.memory.wish(TaskWish.PAUSE)
    house.run_cycles(1, task)
    task.finish()
    control = SourcePartition(NAME, 0)
    house.cluster.expire(control, before=house.cluster.next_offset(control))
    house.memory.wish(TaskWish.RUN)
    house.run_cycles(2, house.task())
    assert house.mistakes() == ""


@pytest.mark.case("I70")
def test_a_drain_commits_what_was_read_and_removes_the_control_topic() -> None:
    house = SinkHouse()
    tasks = (house.task(), house.task())
    house.run_for(timedelta(seconds=3), *tasks)
    house.send(5)
    house.run_for(timedelta(seconds=1), *tasks)
    house.memory.wish(TaskWish.DRAIN)
    house.run_until(lambda: all(task.is_ended for task in tasks), *tasks)
    assert house.mistakes() == ""
    assert house.memory.stored.is_drained
    assert house.cluster.topic_id(NAME) is None
