"""The Java side: Kafka Connect's standalone worker with the Iceberg sink connector.

Its settings are the defaults of worker and connector, but for the interval and addresses. The heap
is that of Kafka's own start script.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM
from urllib.parse import unquote, urlsplit

from datarecs_cli.stack import java
from datarecs_cli.stack.kafka import SCRAM, as_text
from datarecs_cli.stack.part import tail
from datarecs_cli.stack.process import Command, Running, start
from datarecs_runtime.environment import process_environment
from datarecs_testing.stack import KafkaBroker, free_test_port
from tests.bench import sink_jars
from tests.bench.sink_figures import Side
from tests.bench.sink_load import (
    CATALOG,
    INTERVAL_S,
    NAMESPACE,
    TASKS,
    TIMEOUT_S,
    TOPIC,
    Load,
    create_topic,
)

NAME, TABLE, CONTROL = "java", "java_orders", "control-iceberg"
GROUP = f"connect-{NAME}"
"""The connector takes its group from the worker: `connect-` and its name."""
HEAP = ("-Xms256M", "-Xmx2G", "-XX:+UseG1GC")
STOP_LIMIT_S = 30.0


def find_programs(folder: Path) -> tuple[java.Java, tuple[Path, ...]]:
    """Java and the jars of worker and connector.

    Raises:
        PlatformError: Java or a jar is missing; the message says which.
    """
    runtime = java.find_java(
        process_environment(),
        shim_home=folder / "java-connect",
        places=java.Places(packaged=java.packaged_home()),
    )
    return runtime, sink_jars.classpath(runtime)


@contextmanager
def running(load: Load) -> Iterator[Side]:
    """The worker for the block; ended in an orderly way."""
    runtime, jars = find_programs(load.folder)
    folder = load.folder / NAME
    folder.mkdir()
    create_topic(load.broker, CONTROL, 1)
    worker, connector = folder / "worker.properties", folder / "connector.properties"
    for path, entries in ((worker, _worker(load, folder)), (connector, _connector(load))):
        path.touch(mode=0o600)
        path.write_text(as_text(entries), encoding="ascii")
    log = folder / "connect.log"
    process = start(
        Command(
            argv=(
                str(runtime.executable),
                *HEAP,
                java.NO_TRACES,
                f"-Djava.io.tmpdir={folder}",
                "-Dorg.apache.logging.log4j.level=INFO",
                "-cp",
                ":".join(str(path) for path in jars),
                sink_jars.read_lock().broker_main,
                str(worker),
                str(connector),
            ),
            environment={
                key: value for key, value in process_environment().items() if key == "PATH"
            },
            log=log,
        )
    )
    try:
        yield Side(
            name=NAME,
            group=GROUP,
            control_topic=CONTROL,
            roots=lambda: (process.pid,),
            failure=lambda: _failure(process, log),
            is_worker=lambda command: "ConnectStandalone" in command,
        )
    finally:
        process.stop(SIGTERM, STOP_LIMIT_S)


def _failure(process: Running, log: Path) -> str | None:
    code = process.exit_code()
    if code is not None:
        return f"the worker ended with exit code {code}; {log}: {tail(log)}"
    lines = tail(log, 200).splitlines()
    killed = [line for line in lines if "Task is being killed" in line]
    return f"a task failed; {log}: {killed[-1]}" if killed else None


def _login(broker: KafkaBroker) -> dict[str, str]:
    words = f'required username="{broker.username}" password="{broker.password}";'
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f"{SCRAM} {words}",
    }


def _worker(load: Load, folder: Path) -> Mapping[str, str]:
    login = _login(load.broker)
    clients = {
        f"{kind}.{key}": value for kind in ("consumer", "producer") for key, value in login.items()
    }
    return (
        login
        | clients
        | {
            "listeners": f"http://127.0.0.1:{free_test_port()}",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": str(folder / "offsets"),
            # A task sees a StartCommit only between two polls, and a poll of a topic without new
            # records lasts until the next flush, 60 s by default: every commit would time out.
            "offset.flush.interval.ms": "1000",
        }
    )


def _connector(load: Load) -> Mapping[str, str]:
    address = urlsplit(load.database)
    catalog = {
        "type": "jdbc",
        "uri": f"jdbc:postgresql://{address.hostname}:{address.port}{address.path}",
        "jdbc.user": unquote(address.username or ""),
        "jdbc.password": unquote(address.password or ""),
        "jdbc.schema-version": "V1",
        "warehouse": load.warehouse,
    }
    return {
        "name": NAME,
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": str(TASKS),
        "topics": TOPIC,
        "iceberg.tables": f"{NAMESPACE}.{TABLE}",
        "iceberg.catalog": CATALOG,
        "iceberg.control.topic": CONTROL,
        "iceberg.control.commit.interval-ms": str(INTERVAL_S * 1000),
        "iceberg.control.commit.timeout-ms": str(TIMEOUT_S * 1000),
        **{f"iceberg.catalog.{key}": value for key, value in catalog.items()},
        **{f"iceberg.kafka.{key}": value for key, value in _login(load.broker).items()},
    }
