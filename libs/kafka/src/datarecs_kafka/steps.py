"""Names of the steps that consumer and relay tell: those of the crash matrix.

In one place, so that a test that kills at a step and a test that waits for it mean the same one.
"""

CONSUME_BEFORE_TX = "consume.before_tx"
CONSUME_IN_TX = "consume.in_tx"
CONSUME_AFTER_COMMIT = "consume.after_commit"
CONSUME_AFTER_OFFSET = "consume.after_offset"
DLQ_AFTER_SEND = "dlq.after_send"
DLQ_AFTER_COMMIT = "dlq.after_commit"
RELAY_AFTER_CLAIM = "relay.after_claim"
RELAY_AFTER_SEND = "relay.after_send"
RELAY_AFTER_ACK = "relay.after_ack"
RELAY_AFTER_MARK = "relay.after_mark"
