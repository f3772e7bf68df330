"""The places where a test may kill the process: a closed list, and a hook without effect otherwise.

A separate module because shipped code must not import test code: it calls `crash_point`, and a test
launcher binds `hook` before it starts the program. Unlike the signals of loops, which report a
finished step, these names are the matrix of the crash tests, and every one must be reached.
"""

from collections.abc import Callable
from enum import StrEnum


class CrashPoint(StrEnum):
    """`<what is done>.<how far>`; `in_tx` is before the commit, with everything written."""

    TRIGGER_IN_TX = "trigger.in_tx"
    TRIGGER_AFTER_COMMIT = "trigger.after_commit"
    CANCEL_IN_TX = "cancel.in_tx"
    CANCEL_AFTER_COMMIT = "cancel.after_commit"
    SUBMIT_AFTER_INTENT = "submit.after_intent"
    SUBMIT_AFTER_CALL = "submit.after_call"
    SUBMIT_AFTER_COMMIT = "submit.after_commit"
    CONSUME_BEFORE_TX = "consume.before_tx"
    CONSUME_IN_TX = "consume.in_tx"
    CONSUME_AFTER_COMMIT = "consume.after_commit"
    CONSUME_AFTER_OFFSET = "consume.after_offset"
    TIMER_IN_TX = "timer.in_tx"
    TIMER_AFTER_COMMIT = "timer.after_commit"
    RELAY_AFTER_CLAIM = "relay.after_claim"
    RELAY_AFTER_SEND = "relay.after_send"
    RELAY_AFTER_ACK = "relay.after_ack"
    RELAY_AFTER_MARK = "relay.after_mark"
    LEASE_AFTER_COMMIT = "lease.after_commit"
    CHILD_STARTED = "child.started"
    EXTRACT_MID = "extract.mid"
    COMPARE_MID = "compare.mid"
    RESULT_BEFORE_RENAME = "result.before_rename"
    RESULT_AFTER_RENAME = "result.after_rename"
    FINISH_IN_TX = "finish.in_tx"
    FINISH_AFTER_COMMIT = "finish.after_commit"
    DLQ_AFTER_SEND = "dlq.after_send"
    DLQ_AFTER_COMMIT = "dlq.after_commit"
    DELIVER_AFTER_INSERT = "deliver.after_insert"
    DELIVER_AFTER_SEND = "deliver.after_send"
    DELIVER_AFTER_MARK = "deliver.after_mark"
    FIRE_AFTER_CLAIM = "fire.after_claim"
    FIRE_IN_TX = "fire.in_tx"
    FIRE_AFTER_COMMIT = "fire.after_commit"
    RECONCILE_AFTER_CLAIM = "reconcile.after_claim"
    RECONCILE_BEFORE_TX = "reconcile.before_tx"
    RECONCILE_IN_TX = "reconcile.in_tx"
    RECONCILE_AFTER_COMMIT = "reconcile.after_commit"
    CAPTURE_AFTER_CLAIM = "capture.after_claim"
    CAPTURE_AFTER_BEGIN = "capture.after_begin"
    CAPTURE_BEFORE_END = "capture.before_end"
    CAPTURE_IN_TX = "capture.in_tx"
    CAPTURE_AFTER_END = "capture.after_end"


def pass_by(point: CrashPoint) -> None:
    """The hook of production."""


hook: Callable[[CrashPoint], None] = pass_by
"""Bound by a test launcher alone, once, before the program starts."""


def crash_point(point: CrashPoint) -> None:
    """This place has been reached; nothing happens outside of crash tests."""
    hook(point)
