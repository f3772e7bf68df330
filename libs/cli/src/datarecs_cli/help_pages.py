"""Examples and exit codes at the end of every help page.

One table, so that a test parses every example and finds a command without one. A new command is
one line here and one line in `main.COMMANDS`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from datarecs_cli.exit_codes import ExitCode

_MEANING = {
    ExitCode.DONE: "done",
    ExitCode.DIFFERENT: "UNMATCHED",
    ExitCode.USAGE: "wrong usage, unknown name, invalid job",
    ExitCode.ERRORED: "errored",
    ExitCode.CANCELLED: "cancelled",
    ExitCode.SERVER: "server unreachable or access refused",
    ExitCode.INTERRUPTED: "interrupted with Ctrl-C",
    ExitCode.TERMINATED: "ended by SIGTERM",
    ExitCode.HUNG_UP: "ended by SIGHUP",
}
_MEANING_OF: Mapping[tuple[str, ExitCode], str] = {
    ("admin rotate-kek", ExitCode.ERRORED): "a secret is still sealed under another key",
    ("admin recover", ExitCode.ERRORED): "results of runs are missing, or services still run",
    ("apply", ExitCode.DIFFERENT): "something would change (--exit-code)",
    ("cancel", ExitCode.DIFFERENT): "UNMATCHED (--wait)",
    ("cancel", ExitCode.ERRORED): "errored (--wait)",
    ("cancel", ExitCode.CANCELLED): "cancelled (--wait)",
    ("cancel", ExitCode.SERVER): "the run had already ended; server or access",
    ("capture start", ExitCode.ERRORED): "the capture failed (--wait)",
    ("capture start", ExitCode.CANCELLED): "the capture was cancelled (--wait)",
    ("capture now", ExitCode.ERRORED): "the capture failed",
    ("capture now", ExitCode.CANCELLED): "the capture was cancelled, or took too long",
    ("diff", ExitCode.DONE): "no differences",
    ("diff", ExitCode.DIFFERENT): "differences exist",
    ("doctor", ExitCode.ERRORED): "a step failed",
    ("plan", ExitCode.ERRORED): "a source cannot be opened",
    ("plan", ExitCode.USAGE): "wrong usage, invalid job, or columns that do not fit",
    ("wait", ExitCode.ERRORED): "the time is over (--timeout)",
    ("verify", ExitCode.DONE): "complete and unaltered",
    ("verify", ExitCode.DIFFERENT): "a check failed",
    ("webhook test", ExitCode.ERRORED): "the endpoint refused the event or did not answer",
}
"""What a code means for one command, where `_MEANING` is not precise."""
_VERDICT_COMMANDS = {"run", "retry", "watch", "compare", "judge"}
_LOCAL = (0, 2)
_CAPTURE = (0, 2, 3, 4, 5, 130)
_SERVER = (0, 2, 5)
_PARTS = (0, 2, 3)
_ADMIN = (0, 2, 3, 5)
_DIFFERENCES = (0, 1, 2, 5)
_RUN = (0, 1, 2, 3, 4, 5, 130)


class HelpPage(NamedTuple):
    examples: tuple[str, ...]
    """Arguments only, without `datarecs` and the command."""
    exit_codes: tuple[int, ...]


HELP_PAGES: Mapping[str, HelpPage] = {
    "up": HelpPage(("", "--detach --port 8090"), (0, 2, 3, 130)),
    "down": HelpPage(("", "--reset --yes"), _PARTS),
    "status": HelpPage(("", "-o csv"), _PARTS),
    "demo": HelpPage(("", "--no-keep", "--template iceberg-kafka"), (0, 2, 3, 130)),
    "apply": HelpPage(
        (
            "-f jobs/",
            "-f job.yaml --dry-run server --exit-code",
            "-f books/ --prune -l set=books --yes",
        ),
        _DIFFERENCES,
    ),
    "get": HelpPage(
        (
            "jobs",
            "runs --job orders --result UNMATCHED -o csv",
            "job orders --export",
            "jobs -l team=finance --watch -o json",
        ),
        (0, 2, 5, 130),
    ),
    "changes": HelpPage(("job orders", "connection ledger --limit 50 -o csv"), _SERVER),
    "describe": HelpPage(("job orders", "schedule nightly -o json"), _SERVER),
    "wait": HelpPage(
        ("job orders --for condition=Ready --timeout 60", "connection ledger --for delete"),
        (0, 2, 3, 5, 130),
    ),
    "reconcile": HelpPage(("job orders", "job orders --namespace finance"), _SERVER),
    "pause": HelpPage(("job orders", "job orders --namespace finance"), _SERVER),
    "resume": HelpPage(("job orders", "job orders --namespace finance"), _SERVER),
    "delete": HelpPage(("job orders", "connection ledger --yes"), _SERVER),
    "schedule history": HelpPage(("nightly", "nightly --limit 50 -o csv"), _SERVER),
    "schedule preview": HelpPage(("nightly", "schedule.yaml -o csv"), _SERVER),
    "run": HelpPage(("orders", "orders.recon.yaml --param day=2026-01-31 --junit junit.xml"), _RUN),
    "watch": HelpPage(("0188f0c8", "@latest:orders --events"), _RUN),
    "retry": HelpPage(("0188f0c8", "@latest:orders --reason 'export complete'"), _RUN),
    "cancel": HelpPage(("0188f0c8", "@latest:orders --reason 'wrong day' --wait"), _RUN),
    "capture start": HelpPage(
        (
            "lake --full --all --mode metadata-only",
            "lake --incremental --current --mode metadata-and-capture --capture stats",
            "lake --full --latest-n 3 --mode capture-only --capture index --table a.orders --wait",
        ),
        _CAPTURE,
    ),
    "capture now": HelpPage(
        (
            "lake --incremental --current --mode metadata-only",
            "lake --full --current --mode metadata-only --table a.orders --max-wait 30s",
        ),
        _CAPTURE,
    ),
    "capture get": HelpPage(
        (
            "0188f0c8-0000-7000-8000-000000000001",
            "0188f0c8-0000-7000-8000-000000000001 -o json",
        ),
        _SERVER,
    ),
    "capture tree": HelpPage(
        (
            "0188f0c8-0000-7000-8000-000000000001",
            "0188f0c8-0000-7000-8000-000000000001 --failed",
        ),
        _SERVER,
    ),
    "capture list": HelpPage(("", "--connection lake --state WAITING -o csv"), _SERVER),
    "capture cancel": HelpPage(
        (
            "0188f0c8-0000-7000-8000-000000000001",
            "0188f0c8-0000-7000-8000-000000000001 --reason 'wrong tables'",
        ),
        _SERVER,
    ),
    "capture release": HelpPage(
        (
            "0188f0c8-0000-7000-8000-000000000001",
            "0188f0c8-0000-7000-8000-000000000001 -o json",
        ),
        _SERVER,
    ),
    "capture status": HelpPage(
        (
            "lake.default.orders",
            "0188f0c8-0000-7000-8000-000000000021 4711 -o json",
        ),
        _SERVER,
    ),
    "sink ls": HelpPage(("", "--namespace finance -o csv"), _SERVER),
    "sink status": HelpPage(("payments-landing", "payments-landing -o json"), _SERVER),
    "sink commits": HelpPage(("payments-landing", "payments-landing --limit 5 -o csv"), _SERVER),
    "sink pause": HelpPage(("payments-landing", "payments-landing --namespace finance"), _SERVER),
    "sink resume": HelpPage(("payments-landing", "payments-landing --namespace finance"), _SERVER),
    "sink commit-now": HelpPage(("payments-landing", "payments-landing -o json"), _SERVER),
    "sink retry": HelpPage(("payments-landing", "payments-landing -o json"), _SERVER),
    "sink accept-table": HelpPage(
        (
            "payments-landing sales.payments --records leave_out",
            "payments-landing sales.payments --records commit --catalog lake",
        ),
        _SERVER,
    ),
    "sink reset": HelpPage(
        ("payments-landing", "payments-landing --position payments/0=5 --position payments/1=7"),
        _SERVER,
    ),
    "sink proof": HelpPage(
        ("payments-landing", "payments-landing --cron @daily --window P7D > proof.yaml"), _SERVER
    ),
    "diff": HelpPage(("@latest:orders", "comparison --only missing:ledger -o csv"), _DIFFERENCES),
    "explain": HelpPage(("@latest:orders", "datarecs-compare/orders account=4711"), (0, 2, 5)),
    "export": HelpPage(
        ("@latest:orders --format xlsx", "comparison --out differences.csv"), _SERVER
    ),
    "report": HelpPage(("@latest:orders --open", "0188f0c8 --format md --out report.md"), _SERVER),
    "events tail": HelpPage(
        ("--run @latest:orders", "--run 0188f0c8 --type 'run.stage.*'"), (0, 2, 5, 130)
    ),
    "events show": HelpPage(("7 --run @latest:orders", "7 --run 0188f0c8 -o yaml"), _SERVER),
    "catalog ls": HelpPage(("tables/", "catalogs/by-name/ -o name"), _SERVER),
    "catalog cat": HelpPage(("catalogs/by-name/lake", "connectors/by-name/lake -o json"), _SERVER),
    "catalog verify": HelpPage(("", "lake.sales.orders -o json"), (0, 2, 3, 5)),
    "validate": HelpPage(("job.yaml", "jobs/ --strict -o github"), _LOCAL),
    "schema": HelpPage(("job", "job.spec.stages.measures"), _LOCAL),
    "compare": HelpPage(
        ("before.csv after.csv --key id", "job.yaml --out comparison --junit junit.xml"),
        (0, 1, 2, 3, 129, 130, 143),
    ),
    "plan": HelpPage(("job.yaml", "before.parquet after.parquet --key id -o json"), _ADMIN),
    "doctor": HelpPage(
        ("job.yaml", "--platform", "--mail received.eml -o csv", "--security core-api"), _ADMIN
    ),
    "verify": HelpPage(("comparison", "run.json --source ledger=delivered/"), (0, 1, 2)),
    "judge": HelpPage(
        (
            "comparison --set stages.rows.measures.amount.tolerances=0.05",
            "comparison --set stages.rows.accept.max_outside=10 --gate acceptance",
        ),
        (0, 1, 2),
    ),
    "errors": HelpPage(("DR1004", "UNKNOWN_COLUMN -o json", "-o csv"), _LOCAL),
    "config show": HelpPage(("", "--defaults"), _LOCAL),
    "config path": HelpPage(("", "-o json"), _LOCAL),
    "login": HelpPage(
        (
            "--server https://datarecs.example.com < key.txt",
            "--server https://datarecs.example.com --context prod < key.txt",
        ),
        _SERVER,
    ),
    "logout": HelpPage(("--context prod", "--context datarecs.example.com"), _SERVER),
    "whoami": HelpPage(("", "--context prod -o json"), _SERVER),
    "history": HelpPage(("orders", "orders --last 100 -o csv"), _SERVER),
    "key create": HelpPage(
        ("--name ci --expires 30d", "--name ci --scope run.trigger --scope read"), _SERVER
    ),
    "key list": HelpPage(("", "--all -o csv"), _SERVER),
    "key revoke": HelpPage(("drk_aaaaaaaaaaaa", "drk_aaaaaaaaaaaa --context prod"), _SERVER),
    "init": HelpPage(
        ("trades.csv custodian.csv", "pg-ledger:public.trades exports/ --key id=TradeRef"), _ADMIN
    ),
    "webhook test": HelpPage(
        ("--endpoint erp", "--endpoint erp --type reconciliation.run.finalised"),
        _ADMIN,
    ),
    "webhook resend": HelpPage(("0188f0c8 --dry-run", "0188f0c8 0188f0c9"), _SERVER),
    "webhook recover": HelpPage(
        ("--endpoint erp --since PT2H", "--endpoint erp --since PT2H --all --dry-run"), _SERVER
    ),
    "webhook cancel": HelpPage(("0188f0c8", "0188f0c8 --context prod"), _SERVER),
    "webhook enable": HelpPage(("--endpoint erp", "--endpoint erp --namespace books"), _SERVER),
    "webhook disable": HelpPage(("--endpoint erp", "--endpoint erp --namespace books"), _SERVER),
    "webhook rotate-secret": HelpPage(
        ("--endpoint erp --secret-out new.secret", "--endpoint erp --grace PT0S"), _SERVER
    ),
    "notify preview": HelpPage(
        (
            "finance --run 0188f0c8-0000-7000-8000-000000000001",
            "finance --run 0188f0c8-0000-7000-8000-000000000001 --format html",
        ),
        _SERVER,
    ),
    "notify mute": HelpPage(
        (
            "finance --until 2026-02-01T08:00:00Z",
            "finance --until 2026-02-01T08:00:00Z --job orders --reason migration",
        ),
        _SERVER,
    ),
    "notify log": HelpPage(("", "--state SKIPPED -o csv"), _SERVER),
    "notify resend": HelpPage(
        (
            "0188f0c8-0000-7000-8000-000000000001",
            "0188f0c8-0000-7000-8000-000000000001 --context prod",
        ),
        _SERVER,
    ),
    "webhook listen": HelpPage(
        ("--port 9000", "--secret-stdin --fail-first 2 < secret.txt"), (0, 2, 3, 130)
    ),
    "webhook deliveries": HelpPage(
        ("--endpoint erp", "--endpoint erp --state DEAD_LETTERED -o csv"), _SERVER
    ),
    "admin bootstrap-db": HelpPage(("", "--passwords-dir secrets/ --wait 60"), _ADMIN),
    "admin migrate": HelpPage(("", "--wait 60"), _ADMIN),
    "admin rotate-kek": HelpPage(("", "--data-dir .datarecs"), _ADMIN),
    "admin topics apply": HelpPage(
        ("--dry-run", "--single-node --passwords-dir secrets/ --wait 60"), _ADMIN
    ),
    "admin recover": HelpPage(
        (
            "--restored-at 2026-01-31T12:00:00Z --dry-run",
            "--restored-at 2026-01-31T12:00:00Z -o json",
        ),
        _ADMIN,
    ),
    "admin consumer create": HelpPage(
        (
            "lake --topics datarecs.run.platform",
            "lake --topics datarecs.run.platform,datarecs.notifications",
        ),
        _ADMIN,
    ),
    "admin consumer list": HelpPage(("", "-o csv"), _ADMIN),
    "admin consumer delete": HelpPage(("lake", "lake --data-dir .datarecs"), _ADMIN),
    "admin tenant create": HelpPage(("acme", "acme > first-key.txt"), _ADMIN),
    "admin tenant new-key": HelpPage(("acme", "acme > key.txt"), _ADMIN),
    "admin outbox unpark": HelpPage(("--dry-run", ""), _ADMIN),
    "completion": HelpPage(
        ("bash > ~/.local/share/bash-completion/completions/datarecs", "zsh"), _LOCAL
    ),
    "version": HelpPage(("", "-o json"), _LOCAL),
}


def epilog_of(path: str) -> str:
    """The end of a help page; empty for a command without an entry."""
    page = HELP_PAGES.get(path)
    if page is None:
        return ""
    examples = "\n".join(f"  datarecs {path} {one}".rstrip() for one in page.examples)
    codes = "\n".join(f"  {code:<4} {_meaning(ExitCode(code), path)}" for code in page.exit_codes)
    return (
        f"\b\nExamples:\n{examples}\n\n\b\nExit codes:\n{codes}\n\n"
        "Flags of every command: datarecs --help"
    )


def _meaning(code: ExitCode, path: str) -> str:
    if code is ExitCode.DONE and path in _VERDICT_COMMANDS:
        return "MATCHED"
    return _MEANING_OF.get((path, code), _MEANING[code])
