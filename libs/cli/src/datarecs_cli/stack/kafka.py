"""One KRaft node of Apache Kafka on loopback: its configuration, first format and readiness.

It uses SCRAM and ACLs, as in production. The quorum is static, so the controller's port is plain
configuration and may change between starts. Both listeners authenticate: clients of the broker by
SCRAM, the controller by PLAIN with the password of the stack.
"""

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGTERM

from datarecs_cli.stack.failures import ClusterIdDiffersError, PartNotReadyError
from datarecs_cli.stack.java import NO_TRACES, Java
from datarecs_cli.stack.part import START_LIMIT_S, Part
from datarecs_cli.stack.process import Command, run_text

ADMIN = "stack"
HEAP = (
    "-Xms256m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",
    # Only the quick compiler: the optimizing one costs more than it saves for one local node.
    "-XX:TieredStopAtLevel=1",
)
PRINTABLE = range(0x20, 0x7F)
FILE_NAMES = {"LC_ALL": "C.UTF-8"}
"""Java encodes file names in its locale; without a locale it cannot open `/home/jörg`."""
LOGGING = """Configuration:
  status: warn
  Appenders:
    Console:
      name: out
      target: SYSTEM_OUT
      PatternLayout:
        pattern: "%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX}{UTC} %p %c{1} %m%n"
  Loggers:
    Root:
      level: warn
      AppenderRef:
        ref: out
"""
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaNode:
    """The configuration of one node; equal values give equal files."""

    directory: Path
    """Folder of server.properties, log4j2.yaml and `data`."""
    broker_port: int
    controller_port: int
    cluster_id: str
    password: str = field(repr=False)
    """Password of the user `stack`, the only super user."""
    java: Java
    classpath: tuple[Path, ...]
    broker_main: str
    storage_main: str
    java_options: tuple[str, ...] = ()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.broker_port}"

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def temporary(self) -> Path:
        """Native libraries are unpacked here."""
        return self.directory / "tmp"


def new_cluster_id() -> str:
    """16 random bytes in URL-safe base64, without a leading dash, which would be an option."""
    while True:
        text = urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def stored_cluster_id(data: Path) -> str | None:
    """The cluster id of the data; None before the first format."""
    try:
        lines = (data / "meta.properties").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    pairs = dict(line.split("=", 1) for line in lines if "=" in line)
    return pairs.get("cluster.id")


def properties(node: KafkaNode) -> dict[str, str]:
    """The node's server.properties, key by key."""
    return settings(
        broker_port=node.broker_port,
        controller_port=node.controller_port,
        password=node.password,
        data=node.data,
    )


def settings(
    *, broker_port: int, controller_port: int, password: str, data: Path
) -> dict[str, str]:
    """The properties of every single node, independent of the source of its programs."""
    login = f'required username="{ADMIN}" password="{password}"'
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": (f"BROKER://127.0.0.1:{broker_port},CONTROLLER://127.0.0.1:{controller_port}"),
        "advertised.listeners": f"BROKER://127.0.0.1:{broker_port}",
        "listener.security.protocol.map": "BROKER:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "BROKER",
        "controller.listener.names": "CONTROLLER",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.broker.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.broker.scram-sha-512.sasl.jaas.config": f"{SCRAM} {login};",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": (
            f'{PLAIN} {login} user_{ADMIN}="{password}";'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": f"User:{ADMIN}",
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "8",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "8",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        # After a kill the old registration would otherwise delay the restart by 9 s.
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        "log.cleaner.dedupe.buffer.size": "2000000",
        # No node replicates this node's metadata, so it writes no records only as a heartbeat.
        "metadata.max.idle.interval.ms": "0",
    }


def prepare(node: KafkaNode, environment: Mapping[str, str]) -> None:
    """Write the configuration and, the first time, format the storage.

    Safe to repeat: data that has its meta.properties is never formatted again.

    Raises:
        ClusterIdDiffersError: the data belongs to another cluster.
        PartNotReadyError: formatting failed.
    """
    node.directory.mkdir(parents=True, exist_ok=True)
    node.directory.chmod(0o700)
    node.temporary.mkdir(exist_ok=True)
    node.properties_file.touch(mode=0o600)
    node.properties_file.write_text(as_text(properties(node)), encoding="ascii")
    (node.directory / "log4j2.yaml").write_text(LOGGING, encoding="utf-8")
    stored = stored_cluster_id(node.data)
    if stored is None:
        _format(node, environment)
    elif stored != node.cluster_id:
        raise ClusterIdDiffersError(directory=node.data, actual=stored, expected=node.cluster_id)


def as_text(entries: Mapping[str, str]) -> str:
    """A properties file, in ASCII."""
    return "".join(f"{key}={_escaped(value)}\n" for key, value in entries.items())


def _escaped(value: str) -> str:
    """The form of Java properties files: ASCII, other characters as UTF-16 escapes."""
    units = value.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    return "".join(
        chr(code) if code in PRINTABLE and code != ord("\\") else f"\\u{code:04x}" for code in codes
    )


def command(node: KafkaNode, *, environment: Mapping[str, str], log: Path) -> Command:
    """The command of the broker."""
    return Command(
        argv=(
            str(node.java.executable),
            *HEAP,
            *node.java_options,
            NO_TRACES,
            f"-Djava.io.tmpdir={node.temporary}",
            f"-Dlog4j2.configurationFile={node.directory / 'log4j2.yaml'}",
            "-cp",
            _joined(node),
            node.broker_main,
            str(node.properties_file),
        ),
        environment=dict(environment) | FILE_NAMES,
        log=log,
    )


def part(node: KafkaNode, *, environment: Mapping[str, str], log: Path) -> Part:
    """The broker as a part of the stack; its class path is exactly the node's."""
    return Part(
        name="kafka",
        command=command(node, environment=environment, log=log),
        probe=lambda: silence_of(node.bootstrap, node.password),
        stop_signal=SIGTERM,
        stop_limit_s=30,
    )


def silence_of(bootstrap: str, password: str) -> str | None:
    """Why a node is not ready; it is ready if the stack's admin reads one broker in metadata."""
    from datarecs_kafka.probe import silence

    return silence(bootstrap, username=ADMIN, password=password)


def _joined(node: KafkaNode) -> str:
    return ":".join(str(path) for path in node.classpath)


def _format(node: KafkaNode, environment: Mapping[str, str]) -> None:
    """Format with the login of the stack; other logins are created over the network.

    The arguments are in a file that only this account can read, because a password in an argument
    is visible to every process of the machine.
    """
    arguments = node.directory / "format.args"
    scram = f"SCRAM-SHA-512=[name={ADMIN},password={node.password}]"
    words = ["-Xmx128m", NO_TRACES, f"-Djava.io.tmpdir={node.temporary}"]
    words += [f"-Dlog4j2.configurationFile={node.directory / 'log4j2.yaml'}"]
    words += ["-cp", _joined(node), node.storage_main, "format", "-t", node.cluster_id]
    words += ["-c", str(node.properties_file), "--add-scram", scram]
    arguments.touch(mode=0o600)
    arguments.write_text("\n".join(f'"{word}"' for word in words), encoding="utf-8")
    try:
        ended = run_text(
            [str(node.java.executable), f"@{arguments}"],
            environment=dict(environment) | FILE_NAMES,
            timeout_s=START_LIMIT_S,
        )
    finally:
        arguments.unlink()
    if ended.returncode != 0:
        raise PartNotReadyError(
            part="kafka",
            limit_s=START_LIMIT_S,
            reason="formatting failed",
            log_tail=ended.stdout[-2000:],
        )
