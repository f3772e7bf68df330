import pytest

from datarecs_kafka.probe import silence
from datarecs_testing.stack import KafkaBroker, free_test_port


@pytest.mark.integration
def test_a_broker_answers_its_administrator(kafka_broker: KafkaBroker) -> None:
    login = kafka_broker
    assert silence(login.bootstrap, username=login.username, password=login.password) is None


@pytest.mark.integration
def test_a_wrong_password_is_distinguished_from_a_missing_broker(kafka_broker: KafkaBroker) -> None:
    wrong = silence(kafka_broker.bootstrap, username="stack", password="wrong", timeout_s=2)
    assert wrong is not None
    assert "authentication" in wrong.lower()
    nobody = silence(f"127.0.0.1:{free_test_port()}", username="stack", password="x")
    assert nobody is not None
    assert "refused" in nobody.lower()
