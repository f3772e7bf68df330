"""`datarecs up`: the order of the parts, and the settings that each gets about the others.

Lock, ports, Java, Postgres, roles and schema, Kafka, topics, services: every step has a readiness
check, so a failure names the first part with a fault. The worker starts at the same time as the
broker, because Spark is slowest and needs only Postgres.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic

from datarecs_cli.stack import (
    accounts,
    classes,
    jars,
    java,
    kafka,
    machine,
    placement,
    ports,
    postgres,
)
from datarecs_cli.stack import provisioning as setting_up
from datarecs_cli.stack import services as catalogue
from datarecs_cli.stack.credentials import LocalSecrets
from datarecs_cli.stack.failures import (
    NotAPlatformError,
    PostgresUnreachableFilesError,
    StateUnreadableError,
    shortened,
)
from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.options import (
    BROKER_PORT,
    CONTROLLER_PORT,
    DATABASE,
    POSTGRES_PORT,
    Options,
    Report,
)
from datarecs_cli.stack.part import Part
from datarecs_cli.stack.process import Identity, start_time
from datarecs_cli.stack.restarts import Restart
from datarecs_cli.stack.services import API_PORT, Service, Surroundings
from datarecs_cli.stack.shutdown import end_leftovers
from datarecs_cli.stack.state import DirectoryLock, Phase, State, load, save
from datarecs_cli.stack.supervisor import Supervisor

OF_A_FILE_SYSTEM = "lost+found"
"""In the root of a mounted volume."""


def prepare_folders(layout: Layout) -> None:
    """Create the data directory.

    Raises:
        NotAPlatformError: the folder has other files and no platform has used it.
        MachineTooSmallError: it cannot be written.
    """
    try:
        _refuse_foreign(layout)
        layout.create(as_root=os.geteuid() == 0)
    except OSError as failure:
        raise machine.unwritable(layout.root, failure) from failure


def _refuse_foreign(layout: Layout) -> None:
    """Otherwise `down --reset` could not separate the platform's data from other files."""
    if layout.is_used or not layout.root.is_dir():
        return
    names = sorted(one.name for one in layout.root.iterdir() if one.name != OF_A_FILE_SYSTEM)
    if names:
        raise NotAPlatformError(
            what=f"{layout.root} has other files and no platform: {shortened(names)}"
        )


class Platform:
    """One platform of one data directory, from the lock to the stop."""

    def __init__(self, options: Options, report: Report) -> None:
        self.options = options
        self.layout = options.layout
        self._report = report
        self._lock = DirectoryLock(self.layout.lock_file)
        self._secrets = LocalSecrets(self.layout.secrets)
        self._state = State()
        self._claims = ports.Claims()
        self._java: java.Java | None = None
        self._tenant_id = ""
        self._broker_password: str | None = None
        self.supervisor = Supervisor(
            changed=self._remember_parts, restarting=self._report_restart, policy=options.policy
        )

    @property
    def ports(self) -> Mapping[str, int]:
        return self._state.ports

    @property
    def base_url(self) -> str:
        return f"http://{ports.LOOPBACK}:{self.ports['api']}"

    def take(self) -> bool:
        """Lock the data directory; False if a running platform has the lock.

        Raises:
            NotAPlatformError: the folder has other files and no platform has used it.
            MachineTooSmallError: too little disk or memory, or the folder cannot be written.
            LockUnavailableError: the file system has no locks.
        """
        prepare_folders(self.layout)
        machine.check_machine(self.layout.root)
        return self._lock.take()

    def bring_up(self) -> None:
        """Start the chosen parts, in order. Call once, after `take`.

        On every error, all started parts are stopped.
        """
        self._state = self._stored()
        try:
            end_leftovers(self._state)
            self._claim()
            self._remember(ports=self._assign_ports())
            database_url = self._provide_database()
            wanted = self.options.wanted_services if database_url else ()
            bootstrap = self._provide_broker(
                meanwhile=lambda: self._start_services(
                    database_url, [one for one in wanted if one.needs_java]
                )
            )
            with self._step(lambda: f"services: {', '.join(one.name for one in wanted)}"):
                self._start_services(
                    database_url,
                    [one for one in wanted if not one.needs_java],
                    bootstrap=bootstrap,
                )
                self.supervisor.until_ready()
            self._remember(phase=Phase.READY)
        except BaseException:
            self.bring_down()
            raise

    def watch(self) -> None:
        """Run until a stop is requested; the parts are stopped when it returns or raises."""
        try:
            self.supervisor.watch()
        finally:
            self.bring_down()

    def bring_down(self) -> tuple[str, ...]:
        """Stop in reverse order; returns the names of killed parts. Safe to repeat."""
        if not self._lock.is_held:
            return ()
        self._remember(phase=Phase.STOPPING)
        killed = self.supervisor.stop()
        self._claims.release()
        self._remember(phase=Phase.STOPPED, supervisor=None, parts={})
        self._lock.release()
        return killed

    def _stored(self) -> State:
        """The state; a new one if its file is damaged: the lock shows that no supervisor runs."""
        try:
            return load(self.layout.state_file)
        except StateUnreadableError as failure:
            self._report.note(f"{failure}; it is written anew, and ports may change")
            return State()

    def _claim(self) -> None:
        me = Identity(pid=os.getpid(), started=start_time(os.getpid()) or "")
        self._remember(
            release=self.options.release,
            phase=Phase.STARTING,
            supervisor=me,
            expected=self.options.expected,
            parts={},
            restarts={},
        )

    def _remember(self, **changes: object) -> None:
        self._state = replace(self._state, **changes)  # type: ignore[arg-type]  # fields by name
        save(self.layout.state_file, self._state)

    def _remember_parts(self, parts: Mapping[str, Identity]) -> None:
        self._remember(parts=parts)

    def _report_restart(self, restart: Restart) -> None:
        self._report.note(restart.words)
        self._remember(restarts={**self._state.restarts, restart.part: restart.words})

    def _start(self, parts: Sequence[Part], *, beside: bool = False) -> None:
        """The parts with the user's limit instead of their own."""
        limit_s = self.options.ready_limit_s
        if limit_s is not None:
            parts = [replace(part, ready_limit_s=limit_s) for part in parts]
        self.supervisor.start(parts, beside=beside)

    @contextmanager
    def _step(self, text: Callable[[], str]) -> Iterator[None]:
        began = monotonic()
        yield
        self._report.done(text(), monotonic() - began)

    def _assign_ports(self) -> dict[str, int]:
        wishes = [ports.PortWish(name="api", default=API_PORT, named=self.options.port)]
        wishes += [
            ports.PortWish(name="postgres", default=POSTGRES_PORT),
            ports.PortWish(name="kafka", default=BROKER_PORT),
            ports.PortWish(name="kafka controller", default=CONTROLLER_PORT),
        ]
        wishes += [
            ports.PortWish(name=service.side_port_name, default=service.side_port)
            for service in self.options.services
        ]
        remembered = self._state.ports
        numbers = ports.assign(wishes, remembered, free=self._claims.take)
        for wish in wishes:
            expected = wish.named or remembered.get(wish.name, wish.default)
            if numbers[wish.name] != expected:
                self._report.note(
                    f"port {expected} is busy; {wish.name} uses port {numbers[wish.name]}"
                )
        return numbers

    # Postgres -----------------------------------------------------------------------------

    def _provide_database(self) -> str | None:
        """An administrator's URL of the platform's database; None if no part needs one."""
        url = self.options.environment.get("DATARECS_DATABASE__URL")
        if url is None:
            if not self.options.wants("postgres"):
                return None
            url = self._start_postgres().url(DATABASE)
        with self._step(lambda: "database roles and schema"):
            setting_up.provision_roles(url, setting_up.role_passwords(self._secrets))
            migration_url = setting_up.migration_url(url, self._secrets)
            setting_up.migrate(migration_url)
            first = setting_up.ensure_first_tenant(migration_url, self.layout, self.base_url)
            self._tenant_id = first.tenant_id
        return url

    def _start_postgres(self) -> postgres.PostgresNode:
        with self._step(lambda: f"PostgreSQL {node.server.version} :{node.port}"):
            node = self._postgres_node()
            self._remember(
                postgres={
                    "version": node.server.version,
                    "directory": str(node.directory),
                    "binaries": str(node.server.bin),
                    "account": node.account.name if node.account else "",
                }
            )
            environment = self.options.server_environment
            postgres.prepare(node, environment)
            self._start(
                [postgres.part(node, environment=environment, log=self.layout.log("postgres"))]
            )
            self.supervisor.until_ready()
        return node

    def _postgres_node(self) -> postgres.PostgresNode:
        try:
            account = accounts.server_account(
                effective_uid=os.geteuid(), before=self._state.postgres.get("account")
            )
        except LookupError as failure:
            raise PostgresUnreachableFilesError(account="root", reason=str(failure)) from failure
        available = postgres.servers(
            self.options.environment, packaged=postgres.packaged_binaries()
        )
        spare = placement.spare_directory(self.layout.root, self.options.spare_root)
        home = spare if spare.exists() else self.layout.postgres
        placed = placement.place(
            postgres.choose(available, home),
            self.layout.postgres,
            account,
            spare_root=self.options.spare_root,
        )
        if placed.note is not None:
            self._report.note(placed.note)
        return postgres.PostgresNode(
            server=placed.server,
            directory=placed.directory,
            port=self.ports["postgres"],
            password=self._secrets.password("postgres-stack"),
            account=account,
        )

    # Java and Kafka -----------------------------------------------------------------------

    def _provide_java(self) -> java.Java:
        if self._java is None:
            with self._step(lambda: f"Java {runtime.version} ({runtime.home})"):
                runtime = java.find_java(
                    self.options.environment,
                    shim_home=self.layout.java,
                    places=java.Places(packaged=java.packaged_home()),
                )
            self._remember(java={"version": runtime.version, "home": str(runtime.home)})
            if runtime.note is not None:
                self._report.note(runtime.note)
            self._java = runtime
        return self._java

    def _provide_broker(self, meanwhile: Callable[[], None]) -> str:
        """The bootstrap address; empty if no part needs one.

        Args:
            meanwhile: starts the parts that do not need the broker; called once.
        """
        environment = self.options.environment
        bootstrap = environment.get("DATARECS_KAFKA__BOOTSTRAP")
        if bootstrap is not None:
            meanwhile()
            login = setting_up.BrokerLogin(
                bootstrap=bootstrap,
                username=environment.get("DATARECS_KAFKA__USERNAME", kafka.ADMIN),
                password=environment.get("DATARECS_KAFKA__PASSWORD", ""),
            )
        elif self.options.wants("kafka"):
            login = self._start_kafka(meanwhile)
        else:
            meanwhile()
            return ""
        with self._step(lambda: "topics, principals and access rules"):
            passwords = setting_up.principal_passwords(self._secrets, self.options.services)
            setting_up.provision_topics(login, passwords, local=True)
        return login.bootstrap

    def _start_kafka(self, meanwhile: Callable[[], None]) -> setting_up.BrokerLogin:
        runtime = self._provide_java()
        lock = jars.read_lock()
        with self._step(lambda: f"Apache Kafka {lock.version} (KRaft) :{self.ports['kafka']}"):
            sources = jars.sources(self.options.environment, folder=self.options.jars_from)
            node = kafka.KafkaNode(
                directory=self.layout.kafka,
                broker_port=self.ports["kafka"],
                controller_port=self.ports["kafka controller"],
                cluster_id=self._cluster_id(),
                password=self._secrets.password("kafka-stack"),
                java=runtime,
                classpath=jars.classpath(lock, sources, runtime),
                broker_main=lock.broker_main,
                storage_main=lock.storage_main,
                java_options=classes.of_kafka(runtime, lock),
            )
            environment = self.options.server_environment
            kafka.prepare(node, environment)
            self._start([kafka.part(node, environment=environment, log=self.layout.log("kafka"))])
            meanwhile()
            self.supervisor.until_ready("kafka")
        self._broker_password = node.password
        return setting_up.BrokerLogin(
            bootstrap=node.bootstrap, username=kafka.ADMIN, password=node.password
        )

    def _cluster_id(self) -> str:
        known = self._state.cluster_id or kafka.stored_cluster_id(self.layout.kafka / "data")
        known = known or kafka.new_cluster_id()
        self._remember(cluster_id=known)
        return known

    # Services -----------------------------------------------------------------------------

    def _start_services(
        self, database_url: str | None, services: Sequence[Service], *, bootstrap: str = ""
    ) -> None:
        if not services or database_url is None:
            return
        runtime = self._provide_java() if any(one.needs_java for one in services) else None
        around = Surroundings(
            layout=self.layout,
            secrets=self._secrets,
            environment=self.options.environment,
            ports=self.ports,
            database_url=database_url,
            bootstrap=bootstrap,
            broker_password=self._broker_password,
            tenant_id=self._tenant_id,
            project=self.options.project,
            java_home=runtime.home if runtime else None,
            java_options=(
                classes.of_spark(runtime, self.options.environment.get(classes.JAVA_OPTIONS, ""))
                if runtime
                else ""
            ),
            log_format=self.options.log_format,
        )
        self._start(
            [catalogue.part_of(service, around) for service in services], beside=bool(bootstrap)
        )
