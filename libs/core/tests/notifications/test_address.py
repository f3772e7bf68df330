import pytest

from datarecs_core.notifications.address import (
    address_fault,
    is_sendable,
    recipient_key,
    wire_address,
)


@pytest.mark.parametrize(
    "address",
    [
        "ana.lopez@example.com",
        "a+tag@example.com",
        "o'brien@example.co.uk",
        "größe@bücher.example",
        "finance@demo.localhost",
    ],
)
def test_plain_addresses_are_accepted(address: str) -> None:
    assert address_fault(address) is None


@pytest.mark.case("M24")
@pytest.mark.case("X83")
@pytest.mark.parametrize(
    "address",
    [
        "a@b\r\nBcc: x",
        "a\n@b.example",
        "a@b.example\x00",
        "a\u202e@b.example",
        "Ana <a@b.example>",
        '"a b"@b.example',
        "a@b",
        "a@localhost",
        "a@[127.0.0.1]",
        "a@127.0.0.1",
        "@b.example",
        "a..b@b.example",
        ".a@b.example",
        "a@b..example",
        "a@-b.example",
        "a",
        "",
        "a@b.example,c@d.example",
        "x" * 65 + "@b.example",
        "a@" + "b." * 130 + "example",
    ],
)
def test_anything_a_header_or_an_smtp_line_could_misread_is_refused(address: str) -> None:
    assert address_fault(address)


@pytest.mark.case("M10")
def test_case_and_domain_spelling_make_no_other_person_and_plus_tags_do() -> None:
    assert recipient_key(" Ana@Example.COM ") == recipient_key("ana@example.com")
    assert recipient_key("a@bücher.example") == "a@xn--bcher-kva.example"
    assert recipient_key("a+x@example.com") != recipient_key("a@example.com")


@pytest.mark.case("X83")
def test_only_the_listed_domain_itself_may_be_written_to() -> None:
    domains = {"example.com"}
    assert is_sendable("a@example.com", domains)
    assert not is_sendable("a@sub.example.com", domains)
    assert not is_sendable("a@evilexample.com", domains)
    assert not is_sendable("a@example.com", set())


def test_on_the_wire_the_domain_is_a_labels_and_the_local_part_as_written() -> None:
    assert wire_address("Ana@bücher.example") == "Ana@xn--bcher-kva.example"
