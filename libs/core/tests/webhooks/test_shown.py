import pytest

from datarecs_core.webhooks.shown import (
    event_url,
    printable,
    shown_request,
    shown_response,
    shown_url,
)


@pytest.mark.case("W24")
def test_urls_are_shown_without_the_values_of_their_query() -> None:
    url = "https://a.example.com:8443/hook?token=s3cret&x=1"
    assert shown_url(url, secret=False) == "https://a.example.com:8443/hook?token=***&x=***"
    assert event_url(url, secret=False) == "https://a.example.com:8443/hook"
    assert shown_url(url, secret=True) == event_url(url, secret=True)
    assert event_url(url, secret=True) == "https://a.example.com:8443"
    assert shown_url("https://a.example.com/", secret=False) == "https://a.example.com/"


@pytest.mark.case("W24")
def test_credentials_signatures_and_referenced_headers_are_masked() -> None:
    headers = (
        ("Authorization", "Bearer x"),
        ("webhook-signature", "v1,x"),
        ("X-K", "s"),
        ("webhook-id", "e"),
    )
    assert shown_request(headers, secret_names={"X-K"}) == {
        "Authorization": "***",
        "webhook-signature": "***",
        "X-K": "***",
        "webhook-id": "e",
    }
    answer = (("Set-Cookie", "a=b"), ("X-Auth-Token", "t"), ("Content-Type", "text/plain\x07"))
    assert shown_response(answer) == {
        "Set-Cookie": "***",
        "X-Auth-Token": "***",
        "Content-Type": "text/plain\N{REPLACEMENT CHARACTER}",
    }
    assert len(shown_response([("x", "y" * 5000)])["x"]) == 1024
    assert printable("a\ud800b") == "a\N{REPLACEMENT CHARACTER}b"
