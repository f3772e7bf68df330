"""How long sending pauses after a failure of the relay, so that a broken relay is tried rarely."""

from datetime import timedelta

from datarecs_core.notifications.replies import ReplyClass

FIRST = timedelta(seconds=30)
LONGEST = timedelta(minutes=15)


def relay_pause(faults_before: int, why: ReplyClass) -> timedelta:
    """30 s doubling to 15 min by the number of faults in a row; 15 min for a wrong setting."""
    if why is ReplyClass.CONFIGURATION:
        return LONGEST
    return min(FIRST * (1 << min(faults_before, 10)), LONGEST)
