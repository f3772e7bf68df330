from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.notifications.evaluation import (
    EVERYTHING,
    Audience,
    Evaluation,
    Held,
    MailKind,
    RuleState,
    RunFacts,
    SkipReason,
    StoredRule,
    evaluate_rules,
)
from datarecs_core.notifications.rule import (
    OUTCOMES,
    Detail,
    Digest,
    Match,
    Mute,
    NotificationRule,
    Notify,
    QuietBehaviour,
    QuietHours,
    Recipient,
)
from datarecs_core.notifications.skipping import skipped_events
from datarecs_core.notifications.wall_clock import Period
from datarecs_core.runs.model import RunMode
from datarecs_core.values import JobId, ResourceUid, RunId, TenantId

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DOMAINS = {"example.com"}
ALL = ("MATCHED", "UNMATCHED", "ERRORED")


def a_rule(
    *addresses: str, name: str = "r", match: Match | None = None, **spec: object
) -> StoredRule:
    to = tuple(Recipient(address=address) for address in addresses or ("a@example.com",))
    declared = NotificationRule(to=to, match=match or Match(), **spec)  # type: ignore[arg-type]  # a builder's table
    return StoredRule(uid=ResourceUid(UUID(int=hash(name) % 2**64)), name=name, spec=declared)


def a_run(outcome: str, number: int = 0, *, job: str = "ledger") -> RunFacts:
    return RunFacts(
        tenant_id=TenantId(UUID(int=1)),
        run_id=RunId(UUID(int=1000 + number)),
        job_id=JobId(UUID(int=7)),
        job_name=job,
        mode=RunMode.IMMEDIATE,
        outcome=outcome,
        finalised_at=NOON + number * HOUR,
    )


def judge(
    rules: Sequence[StoredRule],
    run: RunFacts,
    states: Mapping[ResourceUid, RuleState] | None = None,
) -> Evaluation:
    return evaluate_rules(
        rules, run, states or {}, audience=Audience(domains=DOMAINS), now=run.finalised_at
    )


def mailed(rule: StoredRule, outcomes: Sequence[str]) -> tuple[list[int], list[MailKind]]:
    """Which runs of the sequence lead to a mail, counted from 1, and of which kind."""
    states: dict[ResourceUid, RuleState] = {}
    numbers, kinds = [], []
    for number, outcome in enumerate(outcomes, start=1):
        result = judge([rule], a_run(outcome, number), states)
        states |= {state.rule_uid: state for state in result.states}
        for intent in result.intents:
            numbers.append(number)
            kinds.append(intent.kind)
    return numbers, kinds


@pytest.mark.case("M06")
@pytest.mark.case("U56")
def test_on_change_mails_the_change_and_the_recovery() -> None:
    sequence = ["MATCHED", "UNMATCHED", "UNMATCHED", "UNMATCHED", "MATCHED"]
    assert mailed(a_rule(), sequence) == ([2, 5], [MailKind.OUTCOME, MailKind.RECOVERY])
    every = a_rule(notify=Notify.EVERY_RUN, match=Match(outcomes=("MATCHED", "UNMATCHED")))
    assert mailed(every, sequence)[0] == [1, 2, 3, 4, 5]


@pytest.mark.case("M08")
def test_another_error_code_is_a_change() -> None:
    assert mailed(a_rule(), ["ERRORED:TIMED_OUT", "ERRORED:CRASHED"])[0] == [1, 2]


def test_without_recovery_the_way_back_is_silent() -> None:
    assert mailed(a_rule(recovery=False), ["UNMATCHED", "MATCHED"])[0] == [1]


def test_recovery_needs_a_mailed_alert_and_survives_an_outcome_outside_the_rule() -> None:
    only_unmatched = a_rule(match=Match(outcomes=("UNMATCHED",)))
    assert mailed(only_unmatched, ["ERRORED:CRASHED", "MATCHED"])[0] == []
    assert mailed(only_unmatched, ["UNMATCHED", "ERRORED:CRASHED", "MATCHED"])[0] == [1, 3]


def test_a_recovery_has_its_start_its_length_and_its_first_message() -> None:
    rule = a_rule()
    states: dict[ResourceUid, RuleState] = {}
    for number, outcome in enumerate(["UNMATCHED", "ERRORED:CRASHED"], start=1):
        result = judge([rule], a_run(outcome, number), states)
        states |= {state.rule_uid: state for state in result.states}
    (intent,) = judge([rule], a_run("MATCHED", 3), states).intents
    assert intent.background.since == NOON + HOUR
    assert intent.background.runs == 2
    assert intent.background.alert_outcome == "UNMATCHED"


@pytest.mark.case("M09")
def test_an_overtaken_run_is_held_and_leaves_the_state_alone() -> None:
    rule = a_rule(match=Match(outcomes=ALL))
    later = judge([rule], a_run("MATCHED", 2))
    states = {state.rule_uid: state for state in later.states}
    earlier = judge([rule], a_run("UNMATCHED", 1), states)
    assert earlier.intents == ()
    assert earlier.held == (Held(reason=SkipReason.SUPERSEDED, rule="r"),)
    assert earlier.states == ()


@pytest.mark.case("M27")
def test_a_run_of_the_day_before_yesterday_sends_no_mail() -> None:
    run = a_run("UNMATCHED")
    late = evaluate_rules(
        [a_rule()],
        run,
        {},
        audience=Audience(domains=DOMAINS),
        now=NOON + timedelta(hours=24, seconds=1),
    )
    assert (late.intents, late.states) == ((), ())
    (event,) = skipped_events(late, run)
    assert (event.skip_reason, event.recipient_count) == ("stale", 0)


@pytest.mark.case("M10")
def test_one_person_by_many_rules_and_spellings_is_one_recipient() -> None:
    rules = [
        a_rule("A@example.com", name="one", detail=Detail.MINIMAL),
        a_rule("a@EXAMPLE.com", name="two", detail=Detail.FULL),
    ]
    (intent,) = judge(rules, a_run("UNMATCHED")).intents
    assert intent.address == "A@example.com"
    assert intent.rules == ("one", "two")
    assert intent.detail is Detail.FULL


@pytest.mark.case("M25")
def test_beyond_200_recipients_the_rest_is_skipped_and_reported() -> None:
    rules = [
        a_rule(*(f"p{rule}-{n}@example.com" for n in range(100)), name=f"r{rule}")
        for rule in range(5)
    ]
    run = a_run("UNMATCHED")
    result = judge(rules, run)
    assert sum(intent.skipped is None for intent in result.intents) == 200
    events = skipped_events(result, run)
    assert [event.skip_reason for event in events] == ["recipient_cap"] * 300


@pytest.mark.case("X83")
@pytest.mark.case("R65")
def test_a_foreign_domain_is_skipped_and_reported_without_the_address() -> None:
    run = a_run("UNMATCHED")
    result = judge([a_rule("a@elsewhere.example")], run)
    assert [intent.skipped for intent in result.intents] == [SkipReason.UNVERIFIED]
    (event,) = skipped_events(result, run)
    assert event.skip_reason == "unverified"
    assert "elsewhere" not in repr(event)


def test_an_address_that_is_none_is_skipped_as_unresolved() -> None:
    (intent,) = judge([a_rule("Nobody")], a_run("UNMATCHED")).intents
    assert (intent.skipped, intent.key) == (SkipReason.UNRESOLVED, "nobody")


@pytest.mark.parametrize(
    "rule",
    [
        a_rule(enabled=False),
        a_rule(match=Match(jobs=("other",))),
        a_rule(match=Match(triggers=(RunMode.SCHEDULED,))),
        a_rule(match=Match(outcomes=("MATCHED",))),
    ],
)
def test_a_run_no_rule_matches_leaves_one_trace(rule: StoredRule) -> None:
    run = a_run("UNMATCHED")
    (event,) = skipped_events(judge([rule], run), run)
    assert event.skip_reason == "no_matching_rule"


def test_a_repeated_outcome_is_held_and_reported_with_the_rule() -> None:
    rule = a_rule()
    first = judge([rule], a_run("UNMATCHED", 1))
    states = {state.rule_uid: state for state in first.states}
    run = a_run("UNMATCHED", 2)
    (event,) = skipped_events(judge([rule], run, states), run)
    assert (event.skip_reason, event.rule_names) == ("not_changed", ("r",))


@pytest.mark.case("M29")
@given(
    st.lists(
        st.tuples(st.sampled_from(OUTCOMES[:2] + OUTCOMES[3:]), st.integers(0, 20)), max_size=20
    ),
    st.lists(
        st.builds(
            NotificationRule,
            to=st.lists(
                st.builds(Recipient, address=st.sampled_from(["a@example.com", "b@x.example"])),
                min_size=1,
                max_size=2,
            ).map(tuple),
            notify=st.sampled_from(list(Notify)),
            recovery=st.booleans(),
            match=st.builds(
                Match,
                outcomes=st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=3).map(tuple),
            ),
        ),
        max_size=3,
    ),
)
def test_every_finalised_run_leads_to_a_mail_or_a_reason(
    runs: list[tuple[str, int]], specs: list[NotificationRule]
) -> None:
    rules = [
        StoredRule(uid=ResourceUid(UUID(int=n)), name=f"r{n}", spec=spec)
        for n, spec in enumerate(specs)
    ]
    states: dict[ResourceUid, RuleState] = {}
    for number, (outcome, hours) in enumerate(runs):
        run = replace(a_run(outcome, number), finalised_at=NOON + hours * HOUR)
        result = judge(rules, run, states)
        states |= {state.rule_uid: state for state in result.states}
        mails = [intent for intent in result.intents if intent.skipped is None]
        assert mails or skipped_events(result, run)
        assert len({intent.key for intent in result.intents}) == len(result.intents)


@pytest.mark.case("M07")
def test_an_outcome_that_goes_on_is_repeated_when_the_last_mail_is_old_enough() -> None:
    numbers, kinds = mailed(a_rule(remind_after=timedelta(days=1)), ["UNMATCHED"] * 50)
    assert numbers == [1, 25, 49]
    assert kinds == [MailKind.OUTCOME, MailKind.REMINDER, MailKind.REMINDER]


@pytest.mark.case("M08")
def test_the_first_mail_may_wait_for_many_runs_in_a_row() -> None:
    rule = a_rule(after_consecutive=3)
    sequence = ["UNMATCHED", "MATCHED", "UNMATCHED", "UNMATCHED", "UNMATCHED", "UNMATCHED"]
    assert mailed(rule, sequence)[0] == [5]
    (held,) = judge([rule], a_run("UNMATCHED")).held
    assert held.reason is SkipReason.BELOW_CONSECUTIVE


@pytest.mark.case("M12")
def test_a_mute_holds_mails_until_its_end_and_the_news_comes_afterwards() -> None:
    rule = a_rule(mutes=(Mute(until=NOON + 3 * HOUR),))
    states: dict[ResourceUid, RuleState] = {}
    reasons, numbers = [], []
    for number in range(1, 5):
        result = judge([rule], a_run("UNMATCHED", number), states)
        states |= {state.rule_uid: state for state in result.states}
        reasons += [held.reason for held in result.held]
        numbers += [number for _ in result.intents]
    assert numbers == [3]
    assert reasons == [SkipReason.MUTED, SkipReason.MUTED, SkipReason.NOT_CHANGED]


def test_a_mute_of_other_jobs_holds_nothing_and_a_recovery_is_mailed_after_the_mute() -> None:
    elsewhere = a_rule(mutes=(Mute(jobs=("other",), until=NOON + 9 * HOUR),))
    assert mailed(elsewhere, ["UNMATCHED"])[0] == [1]
    rule = a_rule(mutes=(Mute(until=NOON + 3 * HOUR),))
    state = RuleState(
        rule_uid=rule.uid,
        job_id=a_run("MATCHED").job_id,
        announced="UNMATCHED",
        open_alert=True,
    )
    muted = judge([rule], a_run("MATCHED", 1), {rule.uid: state})
    assert muted.intents == ()
    (after,) = muted.states
    (intent,) = judge([rule], a_run("MATCHED", 3), {rule.uid: after}).intents
    assert intent.kind is MailKind.RECOVERY


def test_a_rule_selects_jobs_by_labels_and_errors_by_their_finer_cause() -> None:
    selected = a_rule(match=Match(job_selector={"team": "finance"}))
    run = a_run("UNMATCHED")
    assert judge([selected], run).intents == ()
    assert judge([selected], replace(run, labels={"team": "finance", "x": "y"})).intents
    causes = a_rule(match=Match(detail_codes=("TABLE_NOT_FOUND",)))
    failed = replace(a_run("ERRORED:QUERY_FAILED"), detail_code="CONNECTION_LOST")
    assert judge([causes], failed).intents == ()
    assert judge([causes], replace(failed, detail_code="TABLE_NOT_FOUND")).intents
    assert judge([causes], run).intents


NIGHT = QuietHours(
    periods=(Period(start="22:00", end="07:00"),),
    timezone="Europe/Berlin",
    exceptions=("ERRORED",),
)


@pytest.mark.case("M13")
def test_quiet_hours_hold_a_mail_until_they_end_but_for_exceptions() -> None:
    night = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
    rule = a_rule(quiet_hours=NIGHT)
    (held,) = judge([rule], replace(a_run("UNMATCHED"), finalised_at=night)).intents
    assert held.due_at == datetime(2026, 11, 21, 6, tzinfo=UTC)
    assert held.fold == f"rule:{rule.uid}"
    (now,) = judge([rule], replace(a_run("ERRORED:CRASHED"), finalised_at=night)).intents
    assert (now.due_at, now.fold) == (None, None)
    (day,) = judge([rule], a_run("UNMATCHED")).intents
    assert day.due_at is None
    silent = a_rule(quiet_hours=replace(NIGHT, behaviour=QuietBehaviour.SKIP))
    (skipped,) = judge([silent], replace(a_run("UNMATCHED"), finalised_at=night)).intents
    assert skipped.skipped is SkipReason.QUIET_HOURS


@pytest.mark.case("M11")
def test_of_a_digest_and_two_immediate_rules_one_mail_leaves_at_once() -> None:
    digest = a_rule(name="digest", digest=Digest(at=("07:00",)))
    (alone,) = judge([digest], a_run("UNMATCHED")).intents
    assert alone.due_at == datetime(2026, 11, 21, 7, tzinfo=UTC)
    others = [a_rule(name="one"), a_rule(name="two")]
    (intent,) = judge([digest, *others], a_run("UNMATCHED")).intents
    assert (intent.due_at, intent.fold) == (None, None)
    assert intent.rules == ("digest", "one", "two")


def test_of_two_digests_the_sooner_one_has_the_run() -> None:
    late = a_rule(name="a", digest=Digest(at=("20:00",)))
    soon = a_rule(name="b", digest=Digest(at=("14:00",)))
    for rules in ([late, soon], [replace(soon, name="a"), replace(late, name="b")]):
        (intent,) = judge(rules, a_run("UNMATCHED")).intents
        assert intent.due_at == datetime(2026, 11, 20, 14, tzinfo=UTC)


def test_who_unsubscribed_or_refused_mail_is_left_out() -> None:
    rule, run, key = a_rule(), a_run("UNMATCHED"), "a@example.com"

    def skipped(**audience: object) -> SkipReason | None:
        who = Audience(domains=DOMAINS, **audience)  # type: ignore[arg-type]  # a builder's table
        result = evaluate_rules([rule], run, {}, audience=who, now=run.finalised_at)
        return result.intents[0].skipped

    for scope in (str(rule.uid), str(run.job_id), EVERYTHING):
        assert skipped(unsubscribed={(key, scope)}) is SkipReason.UNSUBSCRIBED
    assert skipped(unsubscribed={(key, "another"), ("b@example.com", EVERYTHING)}) is None
    assert skipped(suppressed={key}) is SkipReason.SUPPRESSED


def test_a_rule_without_the_recipients_consent_does_not_silence_the_others() -> None:
    one, two = a_rule(name="one"), a_rule(name="two")
    who = Audience(domains=DOMAINS, unsubscribed={("a@example.com", str(one.uid))})
    run = a_run("UNMATCHED")
    for rules in ([one, two], [two, one]):
        (intent,) = evaluate_rules(rules, run, {}, audience=who, now=NOON).intents
        assert (intent.skipped, intent.rules) == (None, ("two",))
