from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_core.errors.faults import pointer
from datarecs_core.webhooks.endpoint import (
    DEFAULT_DELAYS,
    Filter,
    Limits,
    Retry,
    SecretRef,
    Signing,
    SigningMode,
    WebhookEndpoint,
    endpoint_faults,
)

GOOD = WebhookEndpoint(url="https://a.example.com/")


def pointers(spec: WebhookEndpoint) -> list[str]:
    return [pointer(fault.path) for fault in endpoint_faults(spec)]


def test_the_default_endpoint_is_well_formed() -> None:
    assert pointers(GOOD) == []


@pytest.mark.case("W09")
def test_the_default_schedule_is_nine_delays_over_272105_seconds() -> None:
    assert len(DEFAULT_DELAYS) == 9
    assert sum(DEFAULT_DELAYS, timedelta()).total_seconds() == 272_105


@pytest.mark.parametrize(
    "name",
    ["Host", "content-length", "Webhook-Id", "ce-id", "Datarecs-X", "Cookie", "proxy-x", "a b", ""],
)
def test_headers_of_the_platform_and_malformed_names_are_refused(name: str) -> None:
    assert len(pointers(replace(GOOD, headers={name: "x"}))) == 1


def test_header_values_are_visible_ascii_or_a_reference() -> None:
    headers: dict[str, str | SecretRef] = {
        "X-Good": "a b",
        "X-Secret": SecretRef(secret_ref="env:A"),
        "X-Line": "a\r\nb",
        "X-Long": "x" * 1025,
    }
    assert pointers(replace(GOOD, headers=headers)) == [
        "/spec/headers/X-Line",
        "/spec/headers/X-Long",
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (replace(GOOD, url=None), "/spec/url"),
        (replace(GOOD, url_from=SecretRef(secret_ref="env:A")), "/spec/url"),
        (replace(GOOD, filter=Filter(types=())), "/spec/filter/types"),
        (replace(GOOD, filter=Filter(types=("a", "B"))), "/spec/filter/types/1"),
        (replace(GOOD, filter=Filter(exclude_types=("",))), "/spec/filter/exclude_types/0"),
        (replace(GOOD, filter=Filter(types=("a",) * 51)), "/spec/filter/types"),
        (replace(GOOD, signing=Signing(secret_refs=("env:A",))), "/spec/signing/secret_refs"),
        (
            replace(GOOD, signing=Signing(mode=SigningMode.REFERENCE)),
            "/spec/signing/secret_refs",
        ),
        (replace(GOOD, headers={f"x-{n}": "" for n in range(21)}), "/spec/headers"),
        (replace(GOOD, headers={"X-A": "", "x-a": ""}), "/spec/headers"),
        (replace(GOOD, timeout=timedelta(seconds=31)), "/spec/timeout"),
        (replace(GOOD, limits=Limits(max_concurrent=33)), "/spec/limits/max_concurrent"),
        (replace(GOOD, limits=Limits(rate_per_minute=0)), "/spec/limits/rate_per_minute"),
        (replace(GOOD, limits=Limits(max_pending=999)), "/spec/limits/max_pending"),
        (replace(GOOD, alert_emails=("Ana <ana@example.com>",)), "/spec/alert_emails/0"),
        (replace(GOOD, alert_emails=("a@b.example", "a@B.example")), "/spec/alert_emails/1"),
        (
            replace(GOOD, alert_emails=tuple(f"a{n}@b.example" for n in range(11))),
            "/spec/alert_emails",
        ),
        (replace(GOOD, retry=Retry(delays=(timedelta(0),))), "/spec/retry/delays/0"),
        (replace(GOOD, retry=Retry(delays=(timedelta(hours=1),) * 21)), "/spec/retry/delays"),
        (replace(GOOD, retry=Retry(delays=(timedelta(days=1),) * 8)), "/spec/retry/delays"),
        (replace(GOOD, retry=Retry(max_age=timedelta(seconds=59))), "/spec/retry/max_age"),
    ],
)
def test_each_broken_limit_is_named_at_its_place(spec: WebhookEndpoint, expected: str) -> None:
    assert pointers(spec) == [expected]
