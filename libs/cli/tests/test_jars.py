import hashlib
from pathlib import Path

import pytest

from datarecs_cli.stack.failures import JarAlteredError, JarUnavailableError
from datarecs_cli.stack.jars import Jar, JarSources, Lock, classpath, read_lock, sources
from datarecs_cli.stack.java import Java, Places, find_java
from datarecs_cli.stack.lock_jars import LOCK_FILE, rewritten
from datarecs_runtime.environment import process_environment

NO_JAVA = Java(home=Path("/nonexistent"), version="21", origin="test")
CONTENT = {"clients": b"the clients", "server": b"the server"}


def a_lock(**content: bytes) -> Lock:
    jars = tuple(
        Jar(
            organisation="org.example",
            module=module,
            revision="1.0",
            sha256=hashlib.sha256(data).hexdigest(),
            size_bytes=len(data),
        )
        for module, data in content.items()
    )
    return Lock(version="1.0", broker_main="a.B", storage_main="a.C", roots=(), jars=jars)


def a_folder(root: Path, **content: bytes) -> Path:
    root.mkdir()
    for module, data in content.items():
        (root / f"{module}-1.0.jar").write_bytes(data)
    return root


def test_the_lock_names_the_whole_closure_once() -> None:
    lock = read_lock()
    names = [jar.file_name for jar in lock.jars]
    assert len(set(names)) == len(names)
    assert f"kafka-clients-{lock.version}.jar" in names
    assert "log4j-slf4j-impl-2.25.4.jar" in names
    assert all(len(jar.sha256) == 64 and jar.size_bytes > 0 for jar in lock.jars)


def test_the_lock_holds_what_it_was_made_from() -> None:
    lock = read_lock()
    assert set(lock.roots) <= {jar.coordinate for jar in lock.jars}
    assert lock.roots[0].revision == lock.version


def test_rewriting_the_lock_preserves_everything_but_the_jars() -> None:
    text = LOCK_FILE.read_text()
    lock = read_lock()
    assert rewritten(text, lock.jars) == text
    fewer = read_lock(rewritten(text, lock.jars[:2]))
    assert (fewer.roots, fewer.jars) == (lock.roots, lock.jars[:2])


@pytest.mark.case("K13")
def test_the_class_path_is_the_lock_and_nothing_else_of_the_cache(tmp_path: Path) -> None:
    cache = a_folder(tmp_path / "cache", stranger=b"of an older release", **CONTENT)
    jars = classpath(a_lock(**CONTENT), JarSources(cache=cache), NO_JAVA)
    assert [path.name for path in jars] == ["clients-1.0.jar", "server-1.0.jar"]


@pytest.mark.case("K02")
@pytest.mark.case("K12")
def test_a_folder_of_jars_fills_the_cache_without_a_network(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "folder", **CONTENT)
    where = JarSources(cache=tmp_path / "cache", folder=folder)
    classpath(a_lock(**CONTENT), where, NO_JAVA)
    again = classpath(a_lock(**CONTENT), JarSources(cache=where.cache), NO_JAVA)
    assert [path.read_bytes() for path in again] == list(CONTENT.values())


@pytest.mark.case("X89")
@pytest.mark.case("K11")
@pytest.mark.case("K50")
def test_an_altered_jar_is_named_with_both_sums_and_removed(tmp_path: Path) -> None:
    cache = a_folder(tmp_path / "cache", clients=b"the clients", server=b"an altered server")
    with pytest.raises(JarAlteredError) as refused:
        classpath(a_lock(**CONTENT), JarSources(cache=cache), NO_JAVA)
    message = str(refused.value)
    assert "server-1.0.jar" in message
    assert hashlib.sha256(b"the server").hexdigest() in message
    assert hashlib.sha256(b"an altered server").hexdigest() in message
    assert not (cache / "server-1.0.jar").exists()


@pytest.mark.integration
@pytest.mark.case("K12")
@pytest.mark.case("K50")
def test_an_unreachable_mirror_is_an_error_that_names_what_is_missing(tmp_path: Path) -> None:
    java = find_java(
        process_environment(), shim_home=tmp_path / "java", places=Places(packaged=None)
    )
    where = JarSources(cache=tmp_path / "cache", mirror="http://127.0.0.1:9/maven")
    with pytest.raises(JarUnavailableError) as refused:
        classpath(a_lock(**CONTENT), where, java)
    assert refused.value.names == ("clients-1.0.jar", "server-1.0.jar")
    assert "refused" in refused.value.reason.lower()


@pytest.mark.case("K12")
def test_a_named_kafka_home_needs_no_jar_of_ours(tmp_path: Path) -> None:
    libs = tmp_path / "kafka" / "libs"
    libs.mkdir(parents=True)
    (libs / "kafka-clients-4.1.0.jar").write_bytes(b"theirs")
    where = sources({"DATARECS_KAFKA__HOME": str(tmp_path / "kafka"), "HOME": str(tmp_path)})
    assert classpath(a_lock(**CONTENT), where, NO_JAVA) == (libs / "kafka-clients-4.1.0.jar",)


def test_a_kafka_home_of_another_major_is_refused(tmp_path: Path) -> None:
    libs = tmp_path / "libs"
    libs.mkdir()
    (libs / "kafka-clients-3.9.1.jar").write_bytes(b"old")
    with pytest.raises(JarUnavailableError, match=r"not an unpacked Apache Kafka 4\.x"):
        classpath(a_lock(**CONTENT), JarSources(cache=tmp_path, kafka_home=tmp_path), NO_JAVA)
