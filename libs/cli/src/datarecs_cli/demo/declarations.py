"""The declarations of the demo: two connections, the job, a webhook endpoint and a mail rule.

The job is a text for people to read and edit; the other declarations have addresses of this
machine and are generated.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from datarecs_cli.demo.books import LedgerPlace
from datarecs_events.event_types import DataRecsEventType

JOB = "ledger-vs-exports"
LEDGER_CONNECTION = "demo-ledger"
EXPORTS = "exports.parquet"
JOB_FILE = "ledger.recon.yaml"
SURROUNDINGS_FILE = "platform.yaml"
ENDPOINT = "demo-receiver"
RECIPIENT = "finance@demo.localhost"
FINALISED = DataRecsEventType.RUN_FINALISED.value
JOB_TEXT = f"""\
# Does every account of the ledger add up to the same amount in the exports?
# `datarecs demo` writes this file each time. Change something, then:
#   datarecs validate demo/{JOB_FILE}
#   datarecs run demo/{JOB_FILE}
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {{name: {JOB}}}
spec:
  description: Sums by account, ledger against exports
  owner: finance
  sources:
    - {{name: ledger, kind: postgres, connection: {LEDGER_CONNECTION}, relation: demo.ledger}}
    - {{name: exports, kind: parquet, connection: demo-files, path: {EXPORTS}}}
  reference: ledger
  stages:
    - name: balance-check
      type: aggregate
      dimensions: [account]
      measures:
        - name: total_amount
          function: sum
          column: amount
          tolerances: [{{type: ABSOLUTE, value: "0.01"}}]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Addresses and folders of this machine."""

    ledger: LedgerPlace
    password_file: Path
    """Password of the reader's role, in the tenant's folder of secrets."""
    folder: Path
    """Folder of the exports."""
    receiver_url: str
    listening: bool = True
    """False after the receiver has ended, so that nothing is sent to a dead address."""


def surroundings_text(places: Places) -> str:
    """Connections, endpoint and rule as one YAML file; every value is quoted as JSON."""
    ledger = places.ledger
    quoted = json.dumps
    return f"""\
# Resources for the demo's job, with the addresses of this machine.
# `datarecs demo` writes this file each time.
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: {LEDGER_CONNECTION}}}
spec:
  type: postgres
  config:
    host: {quoted(ledger.host)}
    port: {ledger.port}
    database: {quoted(ledger.database)}
    user: {quoted(ledger.user)}
    sslmode: prefer
  auth: {{password: {quoted(f"file:{places.password_file}")}}}
---
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: demo-files}}
spec:
  type: files
  config: {{root: {quoted(str(places.folder))}}}
---
apiVersion: datarecs.io/v1
kind: WebhookEndpoint
metadata: {{name: {ENDPOINT}}}
spec:
  url: {quoted(places.receiver_url)}
  enabled: {quoted(places.listening)}
  filter: {{types: [reconciliation.run.finalised]}}
---
apiVersion: datarecs.io/v1
kind: NotificationRule
metadata: {{name: demo-finance}}
spec:
  match: {{jobs: [{JOB}]}}
  notify: every_run
  to: [{{address: {RECIPIENT}}}]
"""
