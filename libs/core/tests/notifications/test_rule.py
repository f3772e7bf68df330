from dataclasses import replace

import pytest

from datarecs_core.errors.faults import pointer
from datarecs_core.notifications.rule import (
    Match,
    NotificationRule,
    Recipient,
    rule_faults,
)

GOOD = NotificationRule(to=(Recipient(address="a@example.com"),))


def test_the_default_rule_mails_changes_to_trouble_and_back() -> None:
    assert rule_faults(GOOD) == ()
    assert GOOD.match.outcomes == ("UNMATCHED", "ERRORED")
    assert (GOOD.notify, GOOD.recovery) == ("on_change", True)


@pytest.mark.case("X83")
@pytest.mark.case("M24")
@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (replace(GOOD, to=()), "/spec/to"),
        (replace(GOOD, to=GOOD.to * 101), "/spec/to"),
        (replace(GOOD, to=(Recipient(address="a@b\r\nBcc: x"),)), "/spec/to/0/address"),
        (replace(GOOD, match=Match(outcomes=())), "/spec/match/outcomes"),
        (replace(GOOD, match=Match(outcomes=("FAILED",))), "/spec/match/outcomes/0"),
        (replace(GOOD, match=Match(outcomes=("ERRORED:OOM",))), "/spec/match/outcomes/0"),
        (replace(GOOD, match=Match(jobs=("a",) * 201)), "/spec/match/jobs"),
    ],
)
def test_each_broken_rule_is_named_at_its_place(rule: NotificationRule, expected: str) -> None:
    assert [pointer(fault.path) for fault in rule_faults(rule)] == [expected]


def test_every_run_level_code_may_be_named() -> None:
    outcomes = ("MATCHED", "UNMATCHED", "ERRORED", "ERRORED:TIMED_OUT", "ERRORED:UNKNOWN")
    assert rule_faults(replace(GOOD, match=Match(outcomes=outcomes))) == ()
