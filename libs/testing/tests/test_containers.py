import gc
import warnings
from collections.abc import Mapping
from pathlib import Path

import pytest

from datarecs_cli.stack import postgres
from datarecs_testing.containers import (
    FORMAT_ONCE_AND_RUN,
    KAFKA_IMAGE,
    POSTGRES_IMAGE,
    kafka_recipe,
    postgres_recipe,
    require_engine,
)
from datarecs_testing.plugin import wants_containers


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"DATARECS_TEST_CONTAINERS": ""}, False),
        ({"DATARECS_TEST_CONTAINERS": "0"}, False),
        ({"DATARECS_TEST_CONTAINERS": "1"}, True),
    ],
)
def test_containers_are_there_on_request(environment: Mapping[str, str], *, wanted: bool) -> None:
    assert wants_containers(environment) is wanted


def test_another_word_than_1_or_0_is_refused() -> None:
    with pytest.raises(pytest.UsageError, match="'yes'; it may be 1 or 0"):
        wants_containers({"DATARECS_TEST_CONTAINERS": "yes"})


def test_without_an_engine_the_session_shows_what_is_missing_where_and_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(pytest.UsageError) as refused:
        require_engine()
    message = str(refused.value)
    del refused
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()  # the engine's library forgets to close a socket whose connection was refused
    assert f"no container engine answers at unix://{tmp_path}/nobody.sock" in message
    assert "DOCKER_HOST" in message


def test_the_images_are_of_the_versions_that_the_tests_meet_otherwise() -> None:
    servers = postgres.servers({}, packaged=postgres.packaged_binaries())
    assert f"postgres:{servers[0].major}" == POSTGRES_IMAGE
    assert KAFKA_IMAGE.startswith("apache/kafka:4.")


def test_postgres_is_made_and_run_as_the_local_stack_does() -> None:
    recipe = postgres_recipe(port=21_001, password="9pQ-_x")
    assert recipe.command[0] == "postgres"
    assert {"listen_addresses=*", "max_connections=200", "fsync=off"} <= set(recipe.command)
    assert recipe.environment["PGPORT"] == "21001"
    made = recipe.environment["POSTGRES_INITDB_ARGS"].split()
    assert {"--auth=scram-sha-256", "--builtin-locale=C.UTF-8"} <= set(made)
    assert "9pQ-_x" not in repr(recipe)


def test_the_broker_listens_outside_and_is_announced_on_loopback_behind_its_first_login() -> None:
    recipe = kafka_recipe(port=21_002, controller_port=21_003, password="9pQ-_x")
    lines = recipe.environment["SERVER_PROPERTIES"].splitlines()
    assert "listeners=BROKER://0.0.0.0:21002,CONTROLLER://127.0.0.1:21003" in lines
    assert "advertised.listeners=BROKER://127.0.0.1:21002" in lines
    assert "allow.everyone.if.no.acl.found=false" in lines
    assert recipe.environment["FIRST_LOGIN"] == "SCRAM-SHA-512=[name=stack,password=9pQ-_x]"
    assert list(recipe.command) == ["sh", "-c", FORMAT_ONCE_AND_RUN]
    assert "9pQ-_x" not in repr(recipe)
