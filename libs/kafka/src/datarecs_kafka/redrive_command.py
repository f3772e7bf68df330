"""`datarecs-<service> redrive`: the arguments, and the result as text.

Separate from re-drive, so that tests run it without a command line.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence

from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.process import SettingsError
from datarecs_kafka.consumer import Consumer
from datarecs_kafka.redrive import RedriveReport, RedriveWish

DONE, SOME_FAILED, CUT_OFF = 0, 1, 75


def redrive(loops: Iterable[object], arguments: Sequence[str]) -> int:
    """Pass the dead letters of a service to its handlers again.

    Args:
        loops: of the service's process, which is not started.
        arguments: of the command line, after `redrive`.

    Returns:
        0; 1 if letters failed again; 75 if broker or database became unavailable; then repeat
        the command.

    Raises:
        SettingsError: the process has no consumer.
    """
    wish = wish_of(arguments)
    consumer = next((loop for loop in loops if isinstance(loop, Consumer)), None)
    if consumer is None:
        message = (
            "redrive reads a topic of Kafka, but DATARECS_EVENTING__MODE is knative: dead letters "
            "are at the dead-letter sink of the Triggers"
        )
        raise SettingsError((message,))
    work = consumer.redrive()
    try:
        work.run(wish)
    except DatarecsError as cause:
        if not cause.retryable:
            raise
        sys.stderr.write(f"{cause.code.docs_id} interrupted: {cause}; run it again\n")
        sys.stdout.write(format_report(work.report))
        return CUT_OFF
    sys.stdout.write(format_report(work.report))
    return SOME_FAILED if work.report.failed else DONE


def wish_of(arguments: Sequence[str]) -> RedriveWish:
    parser = argparse.ArgumentParser(
        prog="redrive", description="Pass dead letters to the same handlers again."
    )
    parser.add_argument("--reason", help="only dead letters with this reason")
    parser.add_argument("--id", help="only the event with this id")
    parser.add_argument("--limit", type=int, help="maximum number of dead letters")
    parser.add_argument("--discard", action="store_true", help="delete instead of handling")
    options = parser.parse_args(arguments)
    return RedriveWish(
        reason=options.reason, event_id=options.id, limit=options.limit, discard=options.discard
    )


def format_report(report: RedriveReport) -> str:
    return (
        f"handled {report.handled}, failed again {report.failed}, discarded {report.discarded},"
        f" not selected {report.skipped}, unreadable {report.unreadable}\n"
    )
