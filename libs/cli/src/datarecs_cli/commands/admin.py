"""`datarecs admin`: what an operator does to database and broker, and nobody else may.

Addresses come from the settings (`DATARECS_DATABASE__URL`, `DATARECS_KAFKA__…`, or their `_FILE`
forms); without them the platform of `--data-dir` on this machine is meant.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from datarecs_cli.commands.up import DEFAULT_DATA_DIR, DataDir
from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import UsageFault, current
from datarecs_cli.output import Column, print_json, print_list
from datarecs_cli.stack import kafka, provisioning
from datarecs_cli.stack.credentials import LocalSecrets
from datarecs_cli.stack.layout import Layout, layout_of
from datarecs_cli.stack.options import DATABASE
from datarecs_cli.stack.postgres import superuser_url
from datarecs_cli.stack.services import RELAY_ROLE, SERVICES, as_role
from datarecs_cli.stack.state import load
from datarecs_runtime.environment import process_environment

if TYPE_CHECKING:
    from datarecs_kafka.access import BrokerAccess

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="For operators.")
topics = typer.Typer(rich_markup_mode=None, help="Topics, principals and access rules.")
tenant = typer.Typer(rich_markup_mode=None, help="Tenants.")
outbox = typer.Typer(rich_markup_mode=None, help="Events on their way to the broker.")
consumer = typer.Typer(
    rich_markup_mode=None,
    help="Readers of events outside the platform. A topic carries every tenant's events, and so "
    "does a consumer read them: for operators, not for tenants.",
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
        Path | None, typer.Option(help="one file per role; default the data directory's secrets")
    ] = None,
) -> ExitCode:
    """Make the database and its roles; DATARECS_DATABASE__URL is an administrator's. Repeatable."""
    layout = layout_of(data_dir)
    url = _setting("DATARECS_DATABASE__URL") or _local_superuser(layout)
    folder = passwords_dir or layout.secrets
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    passwords = provisioning.role_passwords(LocalSecrets(folder))
    provisioning.provision_roles(url, passwords)
    for role in passwords:
        print(f"{role}  {folder / role}")
    return ExitCode.DONE


@app.command("migrate")
def migrate(*, data_dir: DataDir = DEFAULT_DATA_DIR) -> ExitCode:
    """Bring the schema to this release; of two at once one waits. Repeatable."""
    provisioning.migrate(migration_url(layout_of(data_dir)))
    current().say("the schema is at this release's head")
    return ExitCode.DONE


@topics.command("apply")
def topics_apply(
    *,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what differs")] = False,
) -> ExitCode:
    """Make topics, principals and access rules agree with the catalogue. Repeatable."""
    layout = layout_of(data_dir)
    login, local = broker(layout)
    if dry_run:
        changes = provisioning.topic_differences(login, local=local)
    else:
        passwords = (
            provisioning.principal_passwords(LocalSecrets(layout.secrets), SERVICES)
            if local
            else {}
        )
        changes = provisioning.provision_topics(login, passwords, local=local)
    print("\n".join(changes) or "nothing to change")
    return ExitCode.DONE


ConsumerName = Annotated[str, typer.Argument(metavar="NAME", help="of its principal")]


@consumer.command("create")
def consumer_create(
    name: ConsumerName,
    *,
    topics: Annotated[
        list[str], typer.Option(metavar="TOPIC,…", help="event topics that it may read")
    ],
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> ExitCode:
    """Make a login that reads these topics, of every tenant; its secret is printed once.

    Example: datarecs admin consumer create lake --topics datarecs.run.platform
    """
    invocation, access = current(), _administrator(layout_of(data_dir))
    wanted = [part.strip() for one in topics for part in one.split(",") if part.strip()]
    made, secret = provisioning.create_consumer(access, name, wanted)
    if invocation.is_json:
        members = {"name": made.name, "topics": list(made.topics), "secret": secret}
        print_json("admin", {**members, "group_prefix": made.group_prefix})
        return ExitCode.DONE
    invocation.say(f"{made.name} may read {', '.join(made.topics)}: events of every tenant")
    invocation.say(f"its groups begin with {made.group_prefix}  its secret is shown this once")
    print(secret)
    return ExitCode.DONE


@consumer.command("list")
def consumer_list(*, data_dir: DataDir = DEFAULT_DATA_DIR) -> ExitCode:
    """List consumers and the topics that they may read, e.g. with -o json."""
    consumers = provisioning.list_consumers(_administrator(layout_of(data_dir)))
    rows = [{"name": one.name, "topics": ", ".join(one.topics)} for one in consumers]
    columns = [Column(title="NAME", member="name"), Column(title="TOPICS", member="topics")]
    print_list("admin", columns, rows, current())
    if not rows:
        current().say("no consumers; make one with: datarecs admin consumer create NAME")
    return ExitCode.DONE


@consumer.command("delete")
def consumer_delete(name: ConsumerName, *, data_dir: DataDir = DEFAULT_DATA_DIR) -> ExitCode:
    """Take a consumer's login and rights away, e.g. datarecs admin consumer delete lake."""
    provisioning.delete_consumer(_administrator(layout_of(data_dir)), name)
    print(f"consumer/{name} deleted")
    return ExitCode.DONE


@tenant.command("create")
def tenant_create(
    name: Annotated[str, typer.Argument(help="of the new tenant")],
    *,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> ExitCode:
    """Make a tenant; its first API key is printed once, alone on stdout."""
    tenant_id, api_key = provisioning.create_tenant(migration_url(layout_of(data_dir)), name)
    current().say(f"tenant {name} is {tenant_id}; its key is shown this once")
    print(api_key)
    return ExitCode.DONE


@tenant.command("new-key")
def tenant_new_key(
    name: Annotated[str, typer.Argument(help="of the tenant")],
    *,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> ExitCode:
    """Make another admin key of a tenant, when the last one expires or is lost.

    The key is printed once, alone on stdout: datarecs admin tenant new-key default
    """
    try:
        _, api_key = provisioning.new_admin_key(migration_url(layout_of(data_dir)), name)
    except LookupError as unknown:
        raise UsageFault(f"{unknown}; datarecs admin tenant create makes one") from unknown
    current().say(f"a new admin key of tenant {name}; it is shown this once")
    print(api_key)
    return ExitCode.DONE


@outbox.command("unpark")
def outbox_unpark(
    events: Annotated[
        list[UUID] | None, typer.Argument(help="ids of events; all parked ones without")
    ] = None,
    *,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say which are parked")] = False,
) -> ExitCode:
    """Hand parked events to the relay again, after the topic's limit was repaired. Repeatable."""
    url = relay_url(layout_of(data_dir))
    parked = provisioning.parked_events(url, events or ())
    for one in parked:
        print(f"{one.event_id}  {one.type}  {one.last_error}")
    if dry_run:
        current().say(f"{len(parked)} parked; nothing changed")
    else:
        current().say(f"{provisioning.unpark(url, events or ())} handed to the relay again")
    return ExitCode.DONE


def _setting(name: str) -> str | None:
    from datarecs_cli.stack.settings import effective_environment

    return effective_environment(process_environment()).get(name)


def _local_port(layout: Layout, name: str, instead: str) -> int:
    state = load(layout.state_file)
    if name not in state.parts:
        raise UsageFault(f"no {name} runs at {layout.root}; set {instead}, or start `datarecs up`")
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


def relay_url(layout: Layout) -> str:
    """The relay's own login, which alone may change what was sent."""
    url = _setting("DATARECS_DATABASE__RELAY__URL")
    if url is not None:
        return url
    password = LocalSecrets(layout.secrets).password(RELAY_ROLE)
    return as_role(_local_superuser(layout), RELAY_ROLE, password)


def _administrator(layout: Layout) -> "BrokerAccess":
    """The administrator's way to the broker, with the security that the settings name."""
    from datarecs_kafka.access import BrokerAccess

    login, is_local = broker(layout)
    otherwise = "SASL_PLAINTEXT" if is_local else "SASL_SSL"
    return BrokerAccess(
        bootstrap=login.bootstrap,
        username=login.username,
        password=login.password,
        security=_setting("DATARECS_KAFKA__SECURITY") or otherwise,
        ca_file=_setting("DATARECS_KAFKA__CA_FILE"),
    )


def broker(layout: Layout) -> tuple[provisioning.BrokerLogin, bool]:
    """The administrator's login, and whether it is the single local node."""
    bootstrap = _setting("DATARECS_KAFKA__BOOTSTRAP")
    if bootstrap is None:
        port = _local_port(layout, "kafka", "DATARECS_KAFKA__BOOTSTRAP")
        password = LocalSecrets(layout.secrets).password("kafka-stack")
        login = provisioning.BrokerLogin(
            bootstrap=f"127.0.0.1:{port}", username=kafka.ADMIN, password=password
        )
        return login, True
    login = provisioning.BrokerLogin(
        bootstrap=bootstrap,
        username=_setting("DATARECS_KAFKA__USERNAME") or kafka.ADMIN,
        password=_setting("DATARECS_KAFKA__PASSWORD") or "",
    )
    return login, _setting("DATARECS_PROFILE") == "local"
