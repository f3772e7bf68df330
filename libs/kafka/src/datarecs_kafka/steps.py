"""Names of the steps that consumer and relay report: those of the crash matrix.

In one place, so that a test that kills at a step and a test that waits for it use the same step.
"""

from datarecs_core.crashing import CrashPoint

CONSUME_BEFORE_TX = CrashPoint.CONSUME_BEFORE_TX
CONSUME_IN_TX = CrashPoint.CONSUME_IN_TX
CONSUME_AFTER_COMMIT = CrashPoint.CONSUME_AFTER_COMMIT
CONSUME_AFTER_OFFSET = CrashPoint.CONSUME_AFTER_OFFSET
DLQ_AFTER_SEND = CrashPoint.DLQ_AFTER_SEND
DLQ_AFTER_COMMIT = CrashPoint.DLQ_AFTER_COMMIT
RELAY_AFTER_CLAIM = CrashPoint.RELAY_AFTER_CLAIM
RELAY_AFTER_SEND = CrashPoint.RELAY_AFTER_SEND
RELAY_AFTER_ACK = CrashPoint.RELAY_AFTER_ACK
RELAY_AFTER_MARK = CrashPoint.RELAY_AFTER_MARK
