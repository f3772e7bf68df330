"""`make setup` after the packages: finds Java, fetches the broker's jars, writes class archives."""

import os
import secrets
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.stack import classes, jars, kafka, ports
from datarecs_cli.stack.failures import PlatformError
from datarecs_cli.stack.java import Java, Places, find_java, packaged_home
from datarecs_cli.stack.part import start_ready
from datarecs_runtime.environment import process_environment

FIRST_PORT = 18_000
WRITE_LIMIT_S = 300
SHOWN_CHARACTERS = 400
ROWS = "id,amount,day\n1,1.10,2026-01-01\n2,2.20,2026-01-02\n3,3.30,2026-01-03\n"


def store_classes(java: Java, environment: Mapping[str, str]) -> bool:
    """Start Spark and the broker once, so that later starts are faster. Safe to repeat.

    Returns:
        Whether both archives exist. A failure is only a message: all works without them.
    """
    lock = jars.read_lock()
    spark = _store(classes.archive_of_spark(java), lambda new: _compare(new, environment))
    broker = _store(
        classes.archive_of_kafka(java, lock),
        lambda new: _run_broker(new, java, lock, environment),
    )
    return spark and broker


def _store(archive: Path, write: Callable[[Path], None]) -> bool:
    """Replace the archive atomically, because another start may read it."""
    if archive.exists():
        return True
    new = archive.with_suffix(f".{os.getpid()}")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        write(new)
        new.replace(archive)
    except (OSError, PlatformError, subprocess.SubprocessError) as failure:
        print(
            f"{archive.name} cannot be written, so starts are slower until the next `make` writes "
            f"it: {failure}",
            file=sys.stderr,
        )
        return False
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)
    return True


def _compare(archive: Path, environment: Mapping[str, str]) -> None:
    """Run a comparison on Spark, which loads the classes of every run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side in ("a.csv", "b.csv"):
            (folder / side).write_text(ROWS, encoding="utf-8")
        options = {classes.JAVA_OPTIONS: shlex.join(classes.writing(archive))}
        arguments = ["compare", "a.csv", "b.csv", "--key", "id", "--measure", "amount=0.01"]
        ended = subprocess.run(
            [sys.executable, "-m", "datarecs_cli", *arguments, "--engine", "spark"],
            cwd=folder,
            env=dict(environment) | options,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=WRITE_LIMIT_S,
            check=False,
        )
    if ended.returncode not in (ExitCode.DONE, ExitCode.DIFFERENT):
        raise subprocess.SubprocessError(ended.stderr[-SHOWN_CHARACTERS:])


def _run_broker(archive: Path, java: Java, lock: jars.Lock, environment: Mapping[str, str]) -> None:
    """Start a broker, wait until it is ready, and stop it."""
    broker_port = ports.next_free(FIRST_PORT, taken=frozenset()) or FIRST_PORT
    with tempfile.TemporaryDirectory() as name:
        node = kafka.KafkaNode(
            directory=Path(name),
            broker_port=broker_port,
            controller_port=ports.next_free(broker_port + 1, taken=frozenset()) or broker_port + 1,
            cluster_id=kafka.new_cluster_id(),
            password=secrets.token_urlsafe(16),
            java=java,
            classpath=jars.classpath(lock, jars.sources(environment), java),
            broker_main=lock.broker_main,
            storage_main=lock.storage_main,
            java_options=classes.writing(archive),
        )
        kafka.prepare(node, environment)
        broker = kafka.part(node, environment=environment, log=Path(name) / "log")
        running = start_ready(broker)
        running.stop(broker.stop_signal, WRITE_LIMIT_S)


def main(step: str) -> int:
    """Run one step and return its exit code; 1 if a class archive is missing."""
    environment = process_environment()
    with tempfile.TemporaryDirectory() as name:
        try:
            java = find_java(
                environment, shim_home=Path(name), places=Places(packaged=packaged_home())
            )
            if step == "jars":
                jars.classpath(jars.read_lock(), jars.sources(environment), java)
            if step == "classes":
                return 0 if store_classes(java, environment) else 1
        except PlatformError as failure:
            print(failure, file=sys.stderr)
            return 3
    return 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        raise SystemExit(main(sys.argv[1]))
