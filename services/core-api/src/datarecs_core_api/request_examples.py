"""One declaration of each kind, as the OpenAPI document shows it; a test decodes each."""

from collections.abc import Mapping

from datarecs_core.resources.resource import API_VERSION, Kind


def _declaration(kind: Kind, name: str, spec: Mapping[str, object]) -> Mapping[str, object]:
    return {"apiVersion": API_VERSION, "kind": str(kind), "metadata": {"name": name}, "spec": spec}


EXAMPLES: Mapping[Kind, Mapping[str, object]] = {
    Kind.CONNECTION: _declaration(
        Kind.CONNECTION,
        "ledger-pg",
        {
            "type": "postgres",
            "auth": {"password": "env:DATARECS_CONN_DEFAULT_LEDGER"},
            "config": {"host": "ledger.example.com", "database": "ledger", "user": "recon_ro"},
        },
    ),
    Kind.RECONCILIATION_JOB: _declaration(
        Kind.RECONCILIATION_JOB,
        "ledger-vs-exports",
        {
            "sources": [
                {
                    "name": "ledger",
                    "kind": "postgres",
                    "connection": "ledger-pg",
                    "relation": "public.entries",
                },
                {
                    "name": "exports",
                    "kind": "parquet",
                    "connection": "exports",
                    "path": "entries/*.parquet",
                },
            ],
            "stages": [
                {
                    "name": "balance-check",
                    "type": "aggregate",
                    "dimensions": ["account"],
                    "measures": [
                        {
                            "name": "total_amount",
                            "function": "sum",
                            "column": "amount",
                            "tolerances": [{"type": "ABSOLUTE", "value": "0.01"}],
                        }
                    ],
                }
            ],
        },
    ),
    Kind.SCHEDULE: _declaration(
        Kind.SCHEDULE,
        "ledger-nightly",
        {"job": "ledger-vs-exports", "cron": "30 2 * * *", "timezone": "Europe/Berlin"},
    ),
    Kind.WEBHOOK_ENDPOINT: _declaration(
        Kind.WEBHOOK_ENDPOINT,
        "erp-hook",
        {
            "url": "https://erp.example.com/hooks/recon",
            "filter": {"types": ["reconciliation.run.finalised"]},
        },
    ),
    Kind.RETENTION_POLICY: _declaration(
        Kind.RETENTION_POLICY,
        "finance-90-days",
        {
            "job_labels": {"team": "finance"},
            "targets": {
                "runs": {"ttl": "P90D", "keep_last": 30},
                "differences": {"ttl": "P30D"},
            },
        },
    ),
    Kind.CAPTURE: _declaration(
        Kind.CAPTURE,
        "exports-stats",
        {
            "connection": "exports-s3",
            "mode": "METADATA_AND_CAPTURE",
            "outputs": ["TABLE_STATS", "FILE_STATS"],
            "snapshots": {"select": "CURRENT"},
            "interval": "PT15M",
        },
    ),
    Kind.SINK_TABLE: _declaration(
        Kind.SINK_TABLE,
        "payments-landing",
        {
            "connection": "events-kafka",
            "topics": ["payments"],
            "table": {"catalog": "lake", "namespace": "sales", "name": "payments"},
            "auto_create": True,
            "partition_by": ["day(created_at)"],
            "commit": {"interval": "PT1M", "timeout": "PT20S"},
            "tasks": 2,
        },
    ),
    Kind.NOTIFICATION_RULE: _declaration(
        Kind.NOTIFICATION_RULE,
        "finance-breaks",
        {
            "match": {"jobs": ["ledger-vs-exports"], "outcomes": ["UNMATCHED", "ERRORED"]},
            "to": [{"address": "finops@example.com"}],
            "notify": "on_change",
        },
    ),
}
