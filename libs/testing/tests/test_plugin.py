import pytest

from datarecs_kafka.probe import silence
from datarecs_testing.plugin import required_parts
from datarecs_testing.stack import KafkaBroker, PostgresServer


@pytest.mark.integration
def test_every_fresh_database_is_another_empty_one(postgres_server: PostgresServer) -> None:
    urls = {postgres_server.fresh_database() for _ in range(2)}
    assert len(urls) == 2
    name = urls.pop().rpartition("/")[2]
    there = postgres_server.login.query(
        "select count(*) from pg_tables where schemaname = 'public'", database=name
    )
    assert there.text == "0"


@pytest.mark.integration
def test_a_killed_broker_comes_back_on_its_port(kafka_broker: KafkaBroker) -> None:
    assert kafka_broker.jvm is not None
    kafka_broker.jvm.kill()
    assert not kafka_broker.jvm.is_running()
    kafka_broker.jvm.restart()
    why = silence(
        kafka_broker.bootstrap, username=kafka_broker.username, password=kafka_broker.password
    )
    assert why is None


def test_an_unknown_required_part_is_refused_by_name() -> None:
    with pytest.raises(pytest.UsageError, match="postgress"):
        required_parts("postgress,kafka")
