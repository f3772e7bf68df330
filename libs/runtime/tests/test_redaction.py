import pytest

from datarecs_runtime.redaction import is_secret_key, redact, redacted

CANARY = "Zebra77Quagga"
JWT = f"eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ{CANARY}.{CANARY}"
PEM = f"-----BEGIN PRIVATE KEY-----\nMIIE{CANARY}\n-----END PRIVATE KEY-----"


@pytest.mark.case("X64")
@pytest.mark.parametrize(
    "text",
    [
        f"key drk_abcdefghijkl_{CANARY}{'x' * 30} refused",
        f"sealed whsec_{CANARY}==",
        f"Authorization: Bearer {CANARY}",
        f"authorization=Basic {CANARY}",
        f"token {JWT} expired",
        f"connect postgresql://api:{CANARY}@db:5432/x failed",
        f"connect https://{CANARY}@db/",
        f"bad key {PEM}",
        f"cut key {PEM[:50]}",
        f"host=db password={CANARY} dbname=x",
        f"password: '{CANARY} with spaces'",
        f'{{"api_key": "{CANARY}"}}',
        f"?token={CANARY}&x=1",
    ],
)
def test_no_known_shape_of_a_secret_survives(text: str) -> None:
    assert CANARY not in redact(text)


@pytest.mark.parametrize(
    "text",
    ["run 019bc0ef closed", "https://example.com/a@b", "3 tokens left", "password expired"],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "key",
    [
        "authorization",
        "Authorization",
        "set-cookie",
        "Cookie",
        "password",
        "db_password",
        "dsn",
        "kafka.password",
        "apiKey",
        "API_KEY",
        "clientSecret",
        "webhook-signature",
        "private_key",
    ],
)
def test_values_under_known_names_are_masked_however_the_name_is_spelled(key: str) -> None:
    assert is_secret_key(key)
    assert redacted({"a": [{key: CANARY}]}) == {"a": [{key: "***"}]}


@pytest.mark.parametrize("key", ["token_count", "passwords_checked", "secretary", "run_id"])
def test_other_names_preserve_their_values(key: str) -> None:
    assert redacted({key: 7}) == {key: 7}


def test_objects_are_shown_by_their_text_and_bytes_by_their_length() -> None:
    class Shown:
        def __str__(self) -> str:
            return f"password={CANARY}"

    assert redacted((Shown(), b"123", None, 1.5, True)) == [
        "password=***",
        "<3 bytes>",
        None,
        1.5,
        True,
    ]


def test_what_lies_too_deep_is_not_shown_at_all() -> None:
    value: object = CANARY
    for _ in range(20):
        value = {"a": value}
    assert CANARY not in str(redacted(value))
