"""The jars of the Kafka broker, their sources, and the check of each against the lock file.

`jars.lock.toml` names the whole closure. A jar comes from the cache, from a folder, or from a fetch
with the Ivy of pyspark. Entries are fetched without their dependencies, so no jar outside the
lock is used. The SHA-256 of a jar is checked before the jar is in a classpath.
"""

import hashlib
import shutil
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from datarecs_cli.stack import ivy
from datarecs_cli.stack.failures import JarAlteredError, JarUnavailableError
from datarecs_cli.stack.ivy import Coordinate
from datarecs_cli.stack.java import Java


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One locked artefact of a Maven repository."""

    organisation: str
    module: str
    revision: str
    sha256: str
    size_bytes: int

    @property
    def coordinate(self) -> Coordinate:
        return Coordinate(self.organisation, self.module, self.revision)

    @property
    def file_name(self) -> str:
        return f"{self.module}-{self.revision}.jar"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    version: str
    broker_main: str
    storage_main: str
    roots: tuple[Coordinate, ...]
    """The roots of the closure; `lock_jars` resolves it."""
    jars: tuple[Jar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSources:
    """The possible sources of jars; the first one that has a jar is used."""

    cache: Path
    kafka_home: Path | None = None
    """An unpacked Apache Kafka 4.x; its `libs` are used unchanged."""
    folder: Path | None = None
    """Jars under their Maven names, for machines without a network."""
    mirror: str | None = None
    """Root URL of a Maven repository to fetch from instead of Ivy's default."""


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The user's cache, shared by all data directories; the only place written outside of them."""
    caches = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(caches) / "datarecs"


def sources(environment: Mapping[str, str], *, folder: Path | None = None) -> JarSources:
    """The sources named in the environment; the user's cache is shared by all projects."""
    home = environment.get("DATARECS_KAFKA__HOME")
    return JarSources(
        cache=cache_folder(environment) / "jars",
        kafka_home=Path(home) if home else None,
        folder=folder,
        mirror=environment.get("DATARECS_JARS__MIRROR"),
    )


def read_lock(text: str | None = None) -> Lock:
    """The lock of this release, or another text of the same form."""
    content = text or files("datarecs_cli.stack").joinpath("jars.lock.toml").read_text("utf-8")
    kafka = tomllib.loads(content)["kafka"]
    return Lock(
        version=kafka["version"],
        broker_main=kafka["broker_main"],
        storage_main=kafka["storage_main"],
        roots=tuple(Coordinate(*root.split(":")) for root in kafka["roots"]),
        jars=tuple(Jar(**entry) for entry in kafka["jars"]),
    )


def classpath(lock: Lock, sources: JarSources, java: Java) -> tuple[Path, ...]:
    """Exactly the jars of the lock, checked and in its order; or the jars of the named home.

    Raises:
        JarUnavailableError: a jar cannot be fetched.
        JarAlteredError: a file differs from the lock; it is removed.
    """
    if sources.kafka_home is not None:
        return _of_home(sources.kafka_home)
    sources.cache.mkdir(parents=True, exist_ok=True)
    missing = [jar for jar in lock.jars if not (sources.cache / jar.file_name).exists()]
    if missing:
        missing = _copy(missing, sources)
    if missing:
        _fetch(missing, sources, java)
    paths = tuple(sources.cache / jar.file_name for jar in lock.jars)
    for path, jar in zip(paths, lock.jars, strict=True):
        _check(path, jar)
    return paths


def _of_home(home: Path) -> tuple[Path, ...]:
    jars = tuple(sorted(home.joinpath("libs").glob("*.jar")))
    if not any(path.name.startswith("kafka-clients-4.") for path in jars):
        raise JarUnavailableError(
            names=["libs/kafka-clients-4.*.jar"],
            reason=f"DATARECS_KAFKA__HOME={home} is not an unpacked Apache Kafka 4.x",
        )
    return jars


def _check(path: Path, jar: Jar) -> None:
    with path.open("rb") as content:
        got = hashlib.file_digest(content, "sha256").hexdigest()
    if got != jar.sha256:
        path.unlink()
        raise JarAlteredError(file=path, expected=jar.sha256, got=got)


def _copy(missing: Sequence[Jar], sources: JarSources) -> list[Jar]:
    """Copy jars from the folder; returns those that are still missing."""
    if sources.folder is None:
        return list(missing)
    still = []
    for jar in missing:
        offered = sources.folder / jar.file_name
        if offered.is_file():
            _enter(offered, sources.cache)
        else:
            still.append(jar)
    return still


def _enter(file: Path, cache: Path) -> None:
    """Move a file into the cache atomically, because another start may read it."""
    with tempfile.NamedTemporaryFile(dir=cache, delete=False) as target:
        shutil.copyfile(file, target.name)
    Path(target.name).replace(cache / file.name)


def _fetch(missing: Sequence[Jar], sources: JarSources, java: Java) -> None:
    with tempfile.TemporaryDirectory(dir=sources.cache) as name:
        work = Path(name)
        retrieval = ivy.Retrieval(
            wanted=[jar.coordinate for jar in missing],
            pattern="out/[artifact]-[revision].[ext]",
            mirror=sources.mirror,
        )
        reason = ivy.retrieve(retrieval, java, work)
        for jar in missing:
            fetched = work / "out" / jar.file_name
            if fetched.is_file():
                fetched.replace(sources.cache / jar.file_name)
    absent = [jar.file_name for jar in missing if not (sources.cache / jar.file_name).exists()]
    if absent:
        raise JarUnavailableError(names=absent, reason=reason)
