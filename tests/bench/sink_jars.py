"""The jars of the Java connector: their lock, and the same cache and checks as for the broker's.

A module of its own, since it is also the tool that writes the lock again.
"""

import sys
import tempfile
import tomllib
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from datarecs_cli.stack import ivy, jars, java
from datarecs_cli.stack.ivy import Coordinate
from datarecs_cli.stack.lock_jars import resolved, rewritten
from datarecs_runtime.environment import process_environment

LOCK_FILE = Path(__file__).parent / "java" / "connect.lock.toml"
WITH_VARIANTS = ("orc-core",)
"""Modules with variants of one file name; the connector loads ORC's classes and writes Parquet."""


def read_lock() -> jars.Lock:
    """The closure of worker and connector; `broker_main` is the class of the worker."""
    worker = tomllib.loads(LOCK_FILE.read_text(encoding="utf-8"))["connect"]
    return jars.Lock(
        version=worker["version"],
        broker_main=worker["main"],
        storage_main="",
        roots=tuple(Coordinate(*root.split(":")) for root in worker["roots"]),
        jars=tuple(jars.Jar(**entry) for entry in worker["jars"]),
    )


def classpath(runtime: java.Java) -> tuple[Path, ...]:
    """The locked jars, fetched into the user's cache the first time.

    Raises:
        JarUnavailableError: a jar cannot be fetched.
        JarAlteredError: a file differs from the lock; it is removed.
    """
    environment = process_environment()
    places = jars.JarSources(
        cache=jars.cache_folder(environment) / "jars",
        mirror=environment.get("DATARECS_JARS__MIRROR"),
    )
    return jars.classpath(read_lock(), places, runtime)


def main() -> None:
    """Resolve the roots and write the lock; review a difference like any other change."""
    environment = process_environment()
    mirror = environment.get("DATARECS_JARS__MIRROR")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        runtime = java.find_java(
            environment, shim_home=work, places=java.Places(packaged=java.packaged_home())
        )
        closure = resolved(read_lock(), runtime, work, mirror)
        alone = [_fetched_alone(jar, runtime, work / jar.file_name, mirror) for jar in closure]
    text = LOCK_FILE.read_text(encoding="utf-8")
    LOCK_FILE.write_text(rewritten(text, alone), encoding="utf-8")
    sys.stdout.write(f"{LOCK_FILE.name}: {len(closure)} jars\n")


def _fetched_alone(jar: jars.Jar, runtime: java.Java, work: Path, mirror: str | None) -> jars.Jar:
    """The same for a jar with variants, as `classpath` fetches it; a closure may name another."""
    if jar.module not in WITH_VARIANTS:
        return jar
    work.mkdir()
    pattern = "[artifact]-[revision].[ext]"
    ivy.retrieve(ivy.Retrieval([jar.coordinate], pattern, mirror=mirror), runtime, work)
    content = (work / jar.file_name).read_bytes()
    return replace(jar, sha256=sha256(content).hexdigest(), size_bytes=len(content))


if __name__ == "__main__":
    main()
