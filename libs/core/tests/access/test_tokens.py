import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.access.tokens import is_genuine, new_key, parse_key

KEY = new_key(id_bytes=bytes(range(8)), secret_bytes=bytes(range(32)))


@pytest.mark.case("X12")
@given(st.binary(min_size=8, max_size=8), st.binary(min_size=32, max_size=32))
def test_every_key_has_the_published_shape_and_can_be_read_back(
    id_bytes: bytes, secret: bytes
) -> None:
    key = new_key(id_bytes=id_bytes, secret_bytes=secret)
    prefix, key_id, text = key.text[:4], key.text[4:16], key.text[17:]
    presented = parse_key(key.text)
    assert (prefix, key.text[16], key_id, len(text)) == ("drk_", "_", key.key_id, 43)
    assert presented is not None
    assert is_genuine(presented, key.secret_sha256)


def test_what_is_stored_is_the_plain_sha256_of_the_secret() -> None:
    assert KEY.secret_sha256 == hashlib.sha256(KEY.text[17:].encode()).digest()


@pytest.mark.case("X12")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "drk_",
        KEY.text[:-1],
        KEY.text + "x",
        KEY.text.upper(),
        f" {KEY.text}",
        f"{KEY.text}\n",
        KEY.text.replace("drk_", "dpk_"),
        KEY.text[:20] + "é" + KEY.text[21:],
    ],
)
def test_anything_of_another_shape_is_no_key(text: str) -> None:
    assert parse_key(text) is None


@pytest.mark.case("X12")
def test_another_secret_and_an_unknown_id_are_not_genuine() -> None:
    presented = parse_key(KEY.text)
    assert presented is not None
    assert is_genuine(presented, bytes(32)) is False
    assert is_genuine(presented, None) is False


@pytest.mark.case("X12")
def test_an_unknown_id_costs_the_same_hash_and_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    presented = parse_key(KEY.text)
    assert presented is not None

    def counting(one: bytes, other: bytes) -> bool:
        compared.append(len(one) + len(other))
        return one == other

    monkeypatch.setattr("datarecs_core.access.tokens.hmac.compare_digest", counting)
    for stored in (KEY.secret_sha256, bytes(32), None):
        is_genuine(presented, stored)
    assert compared == [64, 64, 64]


def test_neither_a_new_nor_a_presented_key_shows_its_secret() -> None:
    assert KEY.text[17:] not in repr(KEY) + repr(parse_key(KEY.text))


@pytest.mark.parametrize(("id_length", "secret_length"), [(7, 32), (8, 31), (8, 33)])
def test_a_key_is_made_of_exactly_the_right_number_of_random_bytes(
    id_length: int, secret_length: int
) -> None:
    with pytest.raises(ValueError, match="random bytes"):
        new_key(id_bytes=bytes(id_length), secret_bytes=bytes(secret_length))
