"""No file of the repository contains foreign hosts, paths of one machine, or foreign names.

A clone behaves the same behind any mirror and on any machine, and describes only the product.
"""

import re
import subprocess
import tomllib
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOSTS = {
    "storage.googleapis.com",
    "json-schema.org",
    "keepachangelog.com",
    "pre-commit.com",
    "www.apache.org",
    "www.standardwebhooks.com",
    "www.w3.org",
}
"""The real ones: identifiers of standards, the licence, linked pages, stores of objects."""
RESERVED = re.compile(
    r".*\.amazonaws\.com(\.cn|\.)?|.*\.googleapis\.com|.*\.blob\.core\.windows\.net|[^.]*\.?|.*\.(example|test|invalid|localhost|local|internal|svc)\.?|(.*\.)?example\.(com|org)\.?"
    r"|[0-9a-fx.]+|.*\.\.\.?.*",
    re.IGNORECASE,
)
"""Object stores of a customer, and names that lead nowhere: one label, reserved domains,
addresses."""
FOREIGN_WORDS = {
    "3148a0c142820596",
    "3ea125d0bff386e6",
    "60965168ce762e94",
    "7d3194f79e645c42",
    "c70eca6b0f88f44d",
    "c857d09db23e6822",
    "ba20768a02ee5327",
    "2960ad205cb64ff3",
    "cd88a6fb14237c16",
}
"""SHA-256, cut to 16 digits, of words that belong to a workplace and not to the product."""


@cache
def texts() -> dict[str, str]:
    """Every tracked text file with its name; a file that is new and not ignored counts too."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    contents = {}
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file():
            contents[name] = path.read_text(encoding="utf-8", errors="replace")
    return contents


def foreign_hosts(text: str) -> list[str]:
    hosts = re.findall(r"\bhttps?://(?:[^\s/@\"'<>]*@)?([A-Za-z0-9._-]+)", text)
    return [host for host in hosts if host not in HOSTS and not RESERVED.fullmatch(host)]


def foreign_words(text: str) -> list[str]:
    words = set(re.findall(r"[a-z][a-z0-9]+", text.lower()))
    return [word for word in words if sha256(word.encode()).hexdigest()[:16] in FOREIGN_WORDS]


def places_of_this_machine(text: str) -> list[str]:
    """Where this checkout, its folder and its user live; each long enough to be no coincidence."""
    places = {str(ROOT), f"{ROOT.parent}/", f"{Path.home()}/"} - {"/", "//"}
    return [place for place in places if re.search(rf"(?<![\w.]){re.escape(place)}", text)]


def test_no_file_names_a_foreign_host() -> None:
    offences = {name: foreign_hosts(text) for name, text in texts().items()}
    assert {name: hosts for name, hosts in offences.items() if hosts} == {}


def test_no_file_names_a_place_of_this_machine() -> None:
    offences = {name: places_of_this_machine(text) for name, text in texts().items()}
    assert {name: places for name, places in offences.items() if places} == {}


def test_no_file_holds_a_word_of_a_workplace() -> None:
    offences = {name: foreign_words(f"{name} {text}") for name, text in texts().items()}
    assert {name: words for name, words in offences.items() if words} == {}


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-setup.lock"])
def test_the_lock_names_hashes_and_no_index(name: str) -> None:
    text = texts()[name]
    assert "--hash=sha256:" in text
    assert re.findall(r"--(?:extra-)?index-url|--find-links|file:|git\+", text) == []


def test_jars_are_locked_by_hash_and_not_by_address() -> None:
    lock = texts()["libs/cli/src/datarecs_cli/stack/jars.lock.toml"]
    jars = tomllib.loads(lock)["kafka"]["jars"]
    assert all(len(jar["sha256"]) == 64 for jar in jars)
    assert jars != []
    assert "://" not in lock


def test_what_must_not_be_there_is_detected() -> None:
    host = "packages.somewhere.org"
    assert foreign_hosts(f"see https://user@{host}/simple") == [host]
    assert foreign_hosts("https://hooks.example.com http://127.0.0.1:9 https://x") == []
    assert places_of_this_machine(f"cd {ROOT}/libs") != []


def test_no_result_of_a_run_is_tracked() -> None:
    names = {Path(name).name for name in texts()}
    assert names.isdisjoint({"run.json", "report.html", "digests.parquet"})
