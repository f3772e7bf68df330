"""`datarecs apply`, `get` and `delete` over the real application: no scripted answers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from datarecs_cli.applying import shown_name
from datarecs_cli.main import run
from datarecs_core.resources.resource import Kind
from datarecs_core_api.request_examples import EXAMPLES
from datarecs_specs.kinds import KINDS
from datarecs_testing.api import MemoryApiHouse, declare, memory_api
from datarecs_testing.scripted_api import RealApi, written_credentials

SET = {"set": "books"}


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


@pytest.fixture
def ana(house: MemoryApiHouse) -> TestClient:
    return house.caller()


@pytest.fixture
def server(ana: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealApi]:
    monkeypatch.chdir(tmp_path)
    written_credentials(tmp_path)
    api = RealApi(ana)
    with api.in_place_of_the_network():
        yield api


def written(name: str, *documents: object) -> str:
    Path(name).write_text("\n---\n".join(map(json.dumps, documents)), encoding="utf-8")
    return name


def a_document(kind: Kind, name: str, **metadata: object) -> dict[str, object]:
    return {**EXAMPLES[kind], "metadata": {"name": name, **metadata}}


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


@pytest.mark.case("R67")
@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("kind", list(Kind))
def test_an_exported_object_is_applied_unchanged(
    ana: TestClient, capsys: pytest.CaptureFixture[str], kind: Kind
) -> None:
    name = declare(ana, kind).rpartition("/")[2]
    assert run(["get", KINDS[kind].path, name, "-o", "yaml", "--export"]) == 0
    Path("exported.yaml").write_text(capsys.readouterr().out, encoding="utf-8")
    assert run(["apply", "-f", "exported.yaml"]) == 0
    assert lines(capsys) == [f"{shown_name(KINDS[kind], name)} unchanged"]


@pytest.mark.case("R67")
@pytest.mark.usefixtures("server")
def test_a_dry_run_is_answered_by_the_server(
    house: MemoryApiHouse, capsys: pytest.CaptureFixture[str]
) -> None:
    name = written("c.yaml", a_document(Kind.CONNECTION, "ledger"))
    dry = ["apply", "-f", name, "--dry-run", "server", "--exit-code"]
    assert run(dry) == 1
    assert lines(capsys) == ["connection/ledger created"]
    assert run(["apply", "-f", name]) == 0
    lines(capsys)
    before = house.store.everything()
    assert run(dry) == 0
    assert lines(capsys) == ["connection/ledger unchanged"]
    written("c.yaml", a_document(Kind.CONNECTION, "ledger", finalizers=["example.com/keep"]))
    assert run(dry) == 1
    assert lines(capsys) == [
        "connection/ledger configured",
        '  ~ metadata.finalizers[0]: null -> "example.com/keep"',
    ]
    assert house.store.everything() == before


class TestPruning:
    @pytest.mark.case("R67")
    def test_deletes_what_the_set_no_longer_declares_in_reverse_order(
        self, server: RealApi, ana: TestClient, capsys: pytest.CaptureFixture[str]
    ) -> None:
        job = a_document(Kind.RECONCILIATION_JOB, "old-job", labels=SET)
        connection = a_document(Kind.CONNECTION, "old", labels=SET)
        stored = a_document(Kind.CONNECTION, "kept", labels=SET)
        foreign = a_document(Kind.CONNECTION, "foreign", labels={"set": "other"})
        plain = a_document(Kind.CONNECTION, "plain")
        declare(ana, Kind.CONNECTION, name="far", namespace="books")
        assert run(["apply", "-f", written("a", job, connection, stored, foreign, plain)]) == 0
        prune = ["apply", "-f", written("b", stored), "--prune", "-l", "set=books"]
        lines(capsys)
        assert run([*prune, "--dry-run", "server", "--exit-code"]) == 1
        expected = ["connection/kept unchanged", "job/old-job pruned", "connection/old pruned"]
        assert lines(capsys) == expected
        assert server.requests_to("DELETE") == []
        assert run([*prune, "--yes"]) == 0
        shown = capsys.readouterr()
        assert shown.out.splitlines() == expected
        assert shown.err.splitlines() == [
            f"no file declares {one}: it will be deleted"
            for one in ("job/old-job", "connection/old")
        ]
        left = ana.get("/api/v1/connections?namespace=*").json()["items"]
        assert {one["metadata"]["name"] for one in left} == {"kept", "foreign", "plain", "far"}
        assert run([*prune, "--yes"]) == 0
        assert lines(capsys) == ["connection/kept unchanged"]

    def test_without_a_terminal_needs_a_yes(self, server: RealApi) -> None:
        run(["apply", "-f", written("a", a_document(Kind.CONNECTION, "old", labels=SET))])
        sent = len(server.requests_to("PUT"))
        new = written("b", a_document(Kind.CONNECTION, "new", labels=SET))
        assert run(["apply", "-f", new, "--prune", "-l", "set=books"]) == 2
        assert server.requests_to("DELETE") == []
        assert len(server.requests_to("PUT")) == sent

    def test_leaves_an_object_that_changed_since_it_was_listed(
        self, server: RealApi, ana: TestClient, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """It has left the set."""
        run(["apply", "-f", written("a", a_document(Kind.CONNECTION, "old", labels=SET))])
        lines(capsys)
        answered = ana.request

        def relabel(method: str, path: str, **options: object) -> object:
            if method == "DELETE":
                body = a_document(Kind.CONNECTION, "old")
                answered("PUT", "/api/v1/connections/old", json=body, headers={"If-Match": "*"})
            return answered(method, path, **options)  # type: ignore[arg-type]  # as it was called

        server.client.request = relabel  # type: ignore[method-assign,assignment]  # in between
        new = written("b", a_document(Kind.CONNECTION, "new", labels=SET))
        assert run(["apply", "-f", new, "--prune", "-l", "set=books", "--yes"]) == 5
        assert lines(capsys)[-1] == "connection/old failed"
        assert answered("GET", "/api/v1/connections/old").status_code == 200

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--prune"], "add -l"),
            (["-l", "a=b"], "are for --prune"),
            (["--yes"], "are for --prune"),
            (["--prune", "-l", "set!=books"], "needs the labels of one set"),
            (["--prune", "-l", "set"], "needs the labels of one set"),
            (["--prune", "-l", "set in (books, other)"], "needs the labels of one set"),
            (["--prune", "-l", "set=books,!old"], "needs the labels of one set"),
            (["--dry-run", "client", "--exit-code"], "use --dry-run server"),
            (["--prune", "-l", "set>3"], "is not understood"),
            (["--prune", "-l", "set=other"], "connection/ledger does not match -l set=other"),
            (["--prune", "-l", "set=books", "--dry-run", "client"], "use --dry-run server"),
        ],
    )
    def test_refuses_what_names_no_set(
        self,
        server: RealApi,
        capsys: pytest.CaptureFixture[str],
        arguments: list[str],
        words: str,
    ) -> None:
        name = written("a", a_document(Kind.CONNECTION, "ledger", labels=SET))
        assert run(["apply", "-f", name, *arguments]) == 2
        assert words in capsys.readouterr().err
        assert server.requests == []
