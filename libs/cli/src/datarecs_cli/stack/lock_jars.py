"""Writes `jars.lock.toml` again: the current closure of its roots in the repository.

A tool for developers (`make lock-jars`); `jars` only reads the lock.
"""

import hashlib
import tempfile
from collections.abc import Iterable
from pathlib import Path

from datarecs_cli.stack import ivy, java
from datarecs_cli.stack.jars import Jar, Lock, read_lock
from datarecs_runtime.environment import process_environment

LOCK_FILE = Path(__file__).with_name("jars.lock.toml")


def resolved(lock: Lock, runtime: java.Java, work: Path, mirror: str | None) -> tuple[Jar, ...]:
    """The whole closure of the lock's roots, sorted, with checksums of the fetched files.

    Raises:
        RuntimeError: a root could not be fetched, so the closure would be incomplete.
    """
    retrieval = ivy.Retrieval(
        wanted=lock.roots,
        pattern="out/[organisation]/[module]/[revision]/[artifact].[ext]",
        transitive=True,
        mirror=mirror,
    )
    reason = ivy.retrieve(retrieval, runtime, work)
    files = sorted((work / "out").glob("*/*/*/*.jar"))
    jars = tuple(_jar(file, file.relative_to(work / "out").parts) for file in files)
    absent = set(lock.roots) - {jar.coordinate for jar in jars}
    if absent:
        raise RuntimeError(f"not fetched: {absent}; {reason}")
    return jars


def _jar(file: Path, place: tuple[str, ...]) -> Jar:
    content = file.read_bytes()
    return Jar(
        organisation=place[0],
        module=place[1],
        revision=place[2],
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
    )


def rewritten(text: str, jars: Iterable[Jar]) -> str:
    """The text of the lock with these jars instead of the old ones."""
    head = text[: text.index("jars = [")]
    lines = [
        f'  {{ organisation = "{jar.organisation}", module = "{jar.module}",'
        f' revision = "{jar.revision}", sha256 = "{jar.sha256}", size_bytes = {jar.size_bytes} }},'
        for jar in jars
    ]
    return "\n".join([f"{head}jars = [", *lines, "]\n"])


def main() -> None:
    """Resolve and write; review a difference like any other change."""
    environment = process_environment()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        runtime = java.find_java(
            environment, shim_home=work, places=java.Places(packaged=java.packaged_home())
        )
        jars = resolved(read_lock(), runtime, work, environment.get("DATARECS_JARS__MIRROR"))
    text = LOCK_FILE.read_text(encoding="utf-8")
    LOCK_FILE.write_text(rewritten(text, jars), encoding="utf-8")
    print(f"{LOCK_FILE.name}: {len(jars)} jars")


if __name__ == "__main__":
    main()
