"""Causes as the client and brokers word them, and the field of the connection that mends each."""

import pytest

from datarecs_kafka.login_faults import remedy_of

VERIFY = "Handshake failed: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: "
BOOTSTRAP = "Bootstrap failed: KafkaTimeoutError: Unable to bootstrap from ['localhost:21453']"


@pytest.mark.parametrize(
    ("cause", "field"),
    [
        ("SaslAuthenticationFailedError: Invalid username or password", "password"),
        (f"{BOOTSTRAP} (a broker hangs up after a failed authentication)", "password"),
        (f"{VERIFY}unable to get local issuer certificate (_ssl.c:1006)", "field ca"),
        (f"{VERIFY}certificate signature failure (_ssl.c:1006)", "field ca"),
        (f"{VERIFY}certificate has expired (_ssl.c:1006)", "renew the certificate"),
        (f"{VERIFY}Hostname mismatch, certificate is not valid for 'b1'.", "field brokers"),
        ("Handshake failed: [SSL: WRONG_VERSION_NUMBER] wrong version number", "field security"),
        ("UnsupportedSaslMechanismError: [Error 33]", "mechanism"),
        (BOOTSTRAP, "field security"),
    ],
)
def test_a_failed_login_names_the_field_to_correct(cause: str, field: str) -> None:
    assert field in remedy_of(cause, has_login=True)


def test_a_connection_without_login_is_not_advised_to_correct_its_password() -> None:
    cause = f"{BOOTSTRAP} (a broker hangs up after a failed authentication)"
    assert "field security" in remedy_of(cause, has_login=False)


def test_another_cause_has_no_remedy() -> None:
    assert remedy_of("the name kafka has no address", has_login=True) == ""
