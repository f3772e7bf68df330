import pytest

from datarecs_application.tracing import trace_id_of
from datarecs_runtime.tracing import child_of, new_traceparent

KNOWN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_new_trace_has_the_form_of_the_w3c_recommendation() -> None:
    version, trace, span, flags = new_traceparent().split("-")
    assert (version, len(trace), len(span), flags) == ("00", 32, 16, "01")
    assert new_traceparent() != new_traceparent()


def test_a_child_stays_in_the_trace_under_a_separate_span() -> None:
    child = child_of(KNOWN)
    assert trace_id_of(child) == trace_id_of(KNOWN) == "0af7651916cd43dd8448eb211c80319c"
    assert child != KNOWN


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "00-0-0-01",
        KNOWN.upper(),
        f"{KNOWN}-x",
        f" {KNOWN}",
        KNOWN.replace("00-", "ff-", 1),
        KNOWN.replace("b7ad6b7169203331", "0" * 16),
        f"00-{'0' * 32}-b7ad6b7169203331-01",
    ],
)
def test_a_malformed_parent_starts_a_fresh_trace(text: str | None) -> None:
    assert trace_id_of(text) is None
    assert trace_id_of(child_of(text)) is not None
