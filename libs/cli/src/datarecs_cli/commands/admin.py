"""`datarecs admin`: operators change the database and the broker.

Addresses come from the settings (`DATARECS_DATABASE__URL`, `DATARECS_KAFKA__…`, or their `_FILE`
forms); without them the commands change the platform of `--data-dir` on this machine.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar
from uuid import UUID

import typer

from datarecs_cli.commands.up import DEFAULT_DATA_DIR, DataDir
from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Output, UsageFault, current
from datarecs_cli.output import Column, print_json, print_list
from datarecs_cli.stack import kafka, provisioning
from datarecs_cli.stack.credentials import LocalSecrets
from datarecs_cli.stack.layout import Layout, layout_of
from datarecs_cli.stack.options import DATABASE
from datarecs_cli.stack.postgres import superuser_url
from datarecs_cli.stack.reachable import when_reachable
from datarecs_cli.stack.services import RELAY_ROLE, SERVICES, as_role
from datarecs_cli.stack.state import load
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.environment import process_environment

if TYPE_CHECKING:
    from datarecs_application.ports.outside import BlobStores
    from datarecs_kafka.access import BrokerAccess

R = TypeVar("R")
Wait = Annotated[
    int,
    typer.Option(min=0, metavar="SECONDS", help="how long to wait until the server is reachable"),
]

LOST = [
    Column(title="TIME", member="time"),
    Column(title="TENANT", member="tenant_id"),
    Column(title="EVENT", member="type"),
    Column(title="SUBJECT", member="subject"),
]
app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Manage the database, topics, consumers and tenants, as an operator.",
)
topics = typer.Typer(rich_markup_mode=None, help="Apply topics, principals and access rules.")
tenant = typer.Typer(rich_markup_mode=None, help="Create tenants and their admin keys.")
outbox = typer.Typer(rich_markup_mode=None, help="Send parked events again.")
consumer = typer.Typer(
    rich_markup_mode=None,
    help="Manage logins that read events outside the platform. A topic carries the events of all "
    "tenants, so a consumer reads the events of all tenants.",
)
app.add_typer(topics, name="topics")
app.add_typer(consumer, name="consumer")
app.add_typer(tenant, name="tenant")
app.add_typer(outbox, name="outbox")


@app.command("bootstrap-db")
def bootstrap_db(
    *,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    passwords_dir: Annotated[
        Path | None,
        typer.Option(help="folder for one password file per role; default DATA_DIR/secrets"),
    ] = None,
    wait: Wait = 0,
) -> ExitCode:
    """Create the database and its roles.

    DATARECS_DATABASE__URL must be the URL of an administrator. You can repeat the command.
    """
    layout = layout_of(data_dir)
    url = _setting("DATARECS_DATABASE__URL") or _local_superuser(layout)
    folder = passwords_dir or layout.secrets
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    passwords = provisioning.role_passwords(LocalSecrets(folder))
    _when_reachable(lambda: provisioning.provision_roles(url, passwords), wait)
    for role in passwords:
        print(f"{role}  {folder / role}")
    return ExitCode.DONE


@app.command("migrate")
def migrate(*, data_dir: DataDir = DEFAULT_DATA_DIR, wait: Wait = 0) -> ExitCode:
    """Migrate the schema to this release.

    You can repeat the command. If two migrations start at the same time, one waits for the other.
    """
    url = migration_url(layout_of(data_dir))
    _when_reachable(lambda: provisioning.migrate(url), wait)
    if _setting("DATARECS_DATABASE__URL") is not None:
        provisioning.note_profile(url, _setting("DATARECS_PROFILE") or "server")
    current().say("the schema is at the version of this release")
    return ExitCode.DONE


@app.command("rotate-kek")
def rotate_kek(*, data_dir: DataDir = DEFAULT_DATA_DIR) -> ExitCode:
    """Seal all stored secrets under the new key-encryption key.

    DATARECS_SECRETS__KEK is the new key, DATARECS_SECRETS__PREVIOUS_KEK the one to replace. All
    services keep running. You can stop and repeat the command.
    """
    from datarecs_cli.stack.settings import StackSettings
    from datarecs_reports.figures import counted
    from datarecs_runtime.settings import load as load_settings

    secrets = load_settings(StackSettings).secrets
    if secrets.kek is None or secrets.previous_kek is None:
        raise UsageFault(
            "set the new key in DATARECS_SECRETS__KEK_FILE and the one to replace in"
            " DATARECS_SECRETS__PREVIOUS_KEK_FILE, each with its id (…KEK_ID)"
        )
    invocation = current()
    done = provisioning.rotate_kek(migration_url(layout_of(data_dir)), secrets)
    left = {name: rows for name, rows in done.rows_by_kek.items() if name != secrets.kek_id}
    invocation.say(f"{counted(done.changed, 'secret')} sealed under {secrets.kek_id}")
    for line in done.unreadable:
        invocation.say(f"not changed: {line}")
    for name, rows in left.items():
        invocation.say(f"{counted(rows, 'secret')} still sealed under {name}")
    if left:
        return ExitCode.ERRORED
    invocation.say(f"none under {secrets.previous_kek_id}: remove it from the services")
    return ExitCode.DONE


@app.command("recover")
def recover(
    *,
    restored_at: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="time that the restore used, such as 2026-01-31T12:00:00Z"
        ),
    ],
    data_dir: DataDir = DEFAULT_DATA_DIR,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="report everything, change nothing")
    ] = False,
) -> ExitCode:
    """Make a database safe to use that was restored to an earlier time.

    Run it after the restore, before any service starts. It fences leases, sends the last events
    again, moves consumer groups back, checks the results in the blob store, and lists what happened
    after that time. You can repeat the command.
    """
    from datarecs_cli import recovering

    invocation = current()
    if invocation.output not in {None, Output.TABLE, Output.TEXT, Output.JSON}:
        raise UsageFault(f"-o {invocation.output} is not a format of this command; use json")
    moment = recovering.moment_of(restored_at)
    recovery = recovering.recover(layout_of(data_dir), moment, dry_run=dry_run)
    if invocation.is_json:
        print_json("admin", recovering.document_of(recovery))
    else:
        print("\n".join(recovering.lines_of(recovery)))
        if recovery.lost:
            print_list("admin", LOST, [one.as_row() for one in recovery.lost], invocation)
        print("".join(f"to do      {line}\n" for line in recovery.advice), end="")
    if dry_run:
        invocation.say("nothing was changed (--dry-run)")
    return ExitCode.ERRORED if recovery.missing else ExitCode.DONE


@topics.command("apply")
def topics_apply(
    *,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="print the changes, change nothing")
    ] = False,
    single_node: Annotated[
        bool,
        typer.Option("--single-node", help="for a broker of one node: one replica, 3 partitions"),
    ] = False,
    passwords_dir: Annotated[
        Path | None,
        typer.Option(
            help="folder with the password of each login in a file kafka-LOGIN; creates the logins"
        ),
    ] = None,
    wait: Wait = 0,
) -> ExitCode:
    """Apply topics, principals and access rules.

    The event catalogue defines them; the command changes the broker to match it.

    You can repeat the command.
    """
    layout = layout_of(data_dir)
    login, local = broker_login(layout)
    folder = passwords_dir or (layout.secrets if local else None)
    one = local or single_node
    if dry_run:
        changes = _when_reachable(lambda: provisioning.topic_differences(login, local=one), wait)
    else:
        known = LocalSecrets(folder) if folder else None
        passwords = provisioning.principal_passwords(known, SERVICES) if known else {}
        changes = _when_reachable(
            lambda: provisioning.provision_topics(login, passwords, local=one), wait
        )
    print("\n".join(changes) or "nothing to change")
    return ExitCode.DONE


ConsumerName = Annotated[
    str, typer.Argument(metavar="NAME", help="name of the consumer, which is its login")
]


@consumer.command("create")
def consumer_create(
    name: ConsumerName,
    *,
    topics: Annotated[
        list[str], typer.Option(metavar="TOPIC,…", help="event topics that the consumer may read")
    ],
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> ExitCode:
    """Create a login that reads topics.

    It reads the events of all tenants in these topics. Its secret is printed once.
    """
    invocation, access = current(), _administrator(layout_of(data_dir))
    wanted = [part.strip() for one in topics for part in one.split(",") if part.strip()]
    made, secret = provisioning.create_consumer(access, name, wanted)
    if invocation.is_json:
        members = {"name": made.name, "topics": list(made.topics), "secret": secret}
        print_json("admin", {**members, "group_prefix": made.group_prefix})
        return ExitCode.DONE
    invocation.say(f"{made.name} may read {', '.join(made.topics)}: events of every tenant")
    invocation.say(f"its groups begin with {made.group_prefix}; its secret is shown only once")
    print(secret)
    return ExitCode.DONE


@consumer.command("list")
def consumer_list(*, data_dir: DataDir = DEFAULT_DATA_DIR) -> ExitCode:
    """List consumers and the topics that they may read."""
    consumers = provisioning.list_consumers(_administrator(layout_of(data_dir)))
    rows = [{"name": one.name, "topics": ", ".join(one.topics)} for one in consumers]
    columns = [Column(title="NAME", member="name"), Column(title="TOPICS", member="topics")]
    print_list("admin", columns, rows, current())
    if not rows:
        current().say("no consumers; create one with: datarecs admin consumer create NAME")
    return ExitCode.DONE


@consumer.command("delete")
def consumer_delete(name: ConsumerName, *, data_dir: DataDir = DEFAULT_DATA_DIR) -> ExitCode:
    """Delete a consumer's login and access rules."""
    provisioning.delete_consumer(_administrator(layout_of(data_dir)), name)
    print(f"consumer/{name} deleted")
    return ExitCode.DONE


@tenant.command("create")
def tenant_create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="name of the new tenant")],
    *,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> ExitCode:
    """Create a tenant and its first API key.

    The key is printed once, alone on stdout.
    """
    tenant_id, api_key = provisioning.create_tenant(migration_url(layout_of(data_dir)), name)
    current().say(f"tenant {name} has the id {tenant_id}; its key is shown only once")
    print(api_key)
    return ExitCode.DONE


@tenant.command("new-key")
def tenant_new_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="name of the tenant")],
    *,
    system: Annotated[
        bool,
        typer.Option("--system", help="the key also reads figures of the whole platform"),
    ] = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> ExitCode:
    """Create another admin key of a tenant.

    Use it when the last admin key has expired or is lost. The key is printed once, alone on stdout.
    """
    try:
        url = migration_url(layout_of(data_dir))
        _, api_key = provisioning.new_admin_key(url, name, system=system)
    except LookupError as unknown:
        raise UsageFault(
            f"{unknown}; create it with: datarecs admin tenant create NAME"
        ) from unknown
    current().say(f"new admin key of tenant {name}; it is shown only once")
    print(api_key)
    return ExitCode.DONE


@outbox.command("unpark")
def outbox_unpark(
    events: Annotated[
        list[UUID] | None, typer.Argument(metavar="ID…", help="ids of events; default all parked")
    ] = None,
    *,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="list parked events, send nothing")
    ] = False,
) -> ExitCode:
    """Send parked events again.

    First correct the limit of the topic. You can repeat the command.
    """
    url = relay_url(layout_of(data_dir))
    from datarecs_reports.figures import counted

    parked = provisioning.parked_events(url, events or ())
    for one in parked:
        print(f"{one.event_id}  {one.type}  {one.last_error}")
    if dry_run:
        current().say(f"{counted(len(parked), 'parked event')}; nothing changed")
    else:
        unparked = provisioning.unpark(url, events or ())
        current().say(f"{counted(unparked, 'event')} will be sent again")
    return ExitCode.DONE


def _when_reachable(act: Callable[[], R], wait_s: int) -> R:
    return when_reachable(act, wait_s=wait_s, say=current().say, clock=SystemClock())


def _setting(name: str) -> str | None:
    from datarecs_cli.stack.settings import effective_environment

    return effective_environment(process_environment()).get(name)


def _local_port(layout: Layout, name: str, instead: str) -> int:
    state = load(layout.state_file)
    if name not in state.parts:
        raise UsageFault(f"no {name} runs at {layout.root}; set {instead}, or run: datarecs up")
    return state.ports[name]


def _local_superuser(layout: Layout) -> str:
    port = _local_port(layout, "postgres", "DATARECS_DATABASE__URL")
    password = LocalSecrets(layout.secrets).password("postgres-stack")
    return superuser_url(port=port, password=password, database=DATABASE)


def migration_url(layout: Layout) -> str:
    url = _setting("DATARECS_DATABASE__URL")
    if url is not None:
        return url
    return provisioning.migration_url(_local_superuser(layout), LocalSecrets(layout.secrets))


def blob_stores(layout: Layout) -> "BlobStores":
    """The store of the artefacts of runs; raises BlobStoreUnavailableError."""
    from datarecs_cli.stack.settings import StackSettings
    from datarecs_runtime.settings import load as load_settings
    from datarecs_storage.opening import open_blob_stores

    blob = load_settings(StackSettings).blob
    if blob is None:
        return open_blob_stores(layout.blobs.as_uri())
    return open_blob_stores(blob.url, **blob.store_options())


def relay_url(layout: Layout) -> str:
    """The login of the relay, the only one that may change sent events."""
    url = _setting("DATARECS_DATABASE__RELAY__URL")
    if url is not None:
        return url
    password = LocalSecrets(layout.secrets).password(RELAY_ROLE)
    return as_role(_local_superuser(layout), RELAY_ROLE, password)


def _administrator(layout: Layout) -> "BrokerAccess":
    """The administrator's access to the broker, with the security of the settings."""
    return broker_login(layout)[0].access()


def broker_login(layout: Layout) -> tuple[provisioning.BrokerLogin, bool]:
    """The administrator's login, and whether it is the single local node."""
    bootstrap = _setting("DATARECS_KAFKA__BOOTSTRAP")
    if bootstrap is None:
        port = _local_port(layout, "kafka", "DATARECS_KAFKA__BOOTSTRAP")
        password = LocalSecrets(layout.secrets).password("kafka-stack")
        login = provisioning.BrokerLogin(
            bootstrap=f"127.0.0.1:{port}", username=kafka.ADMIN, password=password
        )
        return login, True
    is_local = _setting("DATARECS_PROFILE") == "local"
    default = "SASL_PLAINTEXT" if is_local else "SASL_SSL"
    login = provisioning.BrokerLogin(
        bootstrap=bootstrap,
        username=_setting("DATARECS_KAFKA__USERNAME") or kafka.ADMIN,
        password=_setting("DATARECS_KAFKA__PASSWORD") or "",
        security=_setting("DATARECS_KAFKA__SECURITY") or default,
        ca_file=_setting("DATARECS_KAFKA__CA_FILE"),
    )
    return login, is_local
