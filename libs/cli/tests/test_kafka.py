import signal
from dataclasses import replace
from pathlib import Path

import pytest

from datarecs_cli.stack import jars, kafka
from datarecs_cli.stack.failures import ClusterIdDiffersError
from datarecs_cli.stack.java import Java
from datarecs_cli.stack.kafka import KafkaNode, new_cluster_id, properties, stored_cluster_id
from datarecs_cli.stack.part import start_ready
from datarecs_testing.stack import BrokerPrograms, free_test_port

NODE = KafkaNode(
    directory=Path("/data/kafka"),
    broker_port=29_092,
    controller_port=29_093,
    cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
    password="the stack's own",
    java=Java(home=Path("/java"), version="21", origin="test"),
    classpath=(Path("/jars/a.jar"), Path("/jars/b.jar")),
    broker_main="kafka.Kafka",
    storage_main="kafka.tools.StorageTool",
)


def test_a_cluster_id_is_22_characters_and_never_resembles_an_option() -> None:
    ids = [new_cluster_id() for _ in range(500)]
    assert all(len(one) == 22 and not one.startswith("-") for one in ids)
    assert len(set(ids)) == len(ids)


def test_nobody_but_the_stack_administers_and_nothing_is_open_by_default() -> None:
    settings = properties(NODE)
    assert settings["super.users"] == "User:stack"
    assert settings["allow.everyone.if.no.acl.found"] == "false"
    assert "PLAINTEXT," not in settings["listener.security.protocol.map"].replace(
        "SASL_PLAINTEXT", ""
    )
    assert all("127.0.0.1" in one for one in settings["listeners"].split(","))


@pytest.mark.case("K13")
def test_the_broker_runs_on_exactly_its_class_path() -> None:
    argv = kafka.part(NODE, environment={}, log=Path("/log")).command.argv
    assert argv[argv.index("-cp") + 1] == "/jars/a.jar:/jars/b.jar"
    assert NODE.password not in " ".join(argv)


@pytest.mark.case("K50")
def test_data_of_another_cluster_is_refused_untouched(tmp_path: Path) -> None:
    node = replace(NODE, directory=tmp_path)
    node.data.mkdir()
    (node.data / "meta.properties").write_text("version=1\ncluster.id=another\n")
    with pytest.raises(ClusterIdDiffersError, match=r"cluster another, but state\.json has"):
        kafka.prepare(node, {})
    assert stored_cluster_id(node.data) == "another"


@pytest.fixture
def node(tmp_path: Path, broker_programs: BrokerPrograms) -> KafkaNode:
    """A real node that runs on an unpacked Kafka home, as a user without our jars would have."""
    libs = tmp_path / "home" / "libs"
    libs.mkdir(parents=True)
    for jar in broker_programs.classpath:
        (libs / jar.name).symlink_to(jar)
    where = jars.sources({"DATARECS_KAFKA__HOME": str(tmp_path / "home")})
    return replace(
        NODE,
        directory=tmp_path / "Jörgs käfka",
        broker_port=free_test_port(),
        controller_port=free_test_port(),
        password="9pQ-_x",
        java=broker_programs.java,
        classpath=jars.classpath(broker_programs.lock, where, broker_programs.java),
    )


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.case("K12")
@pytest.mark.case("K14")
def test_a_node_on_a_kafka_home_is_formatted_once_and_moves_its_ports(node: KafkaNode) -> None:
    log = node.directory.parent / "kafka.log"
    kafka.prepare(node, {})
    formatted = (node.data / "meta.properties").read_bytes()
    running = start_ready(kafka.part(node, environment={}, log=log))
    running.stop(signal.SIGTERM, 30)
    moved = replace(node, broker_port=free_test_port(), controller_port=free_test_port())
    kafka.prepare(moved, {})
    running = start_ready(kafka.part(moved, environment={}, log=log))
    running.stop(signal.SIGTERM, 30)
    assert (node.data / "meta.properties").read_bytes() == formatted
    assert not (node.directory / "format.args").exists()
    assert node.properties_file.stat().st_mode & 0o077 == 0
