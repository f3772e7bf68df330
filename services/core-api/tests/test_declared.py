"""Declared objects over REST: create, read, replace, delete, with every fault reported at once."""

import json
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from starlette.testclient import TestClient

from datarecs_core.access.permissions import Role
from datarecs_core.resources.resource import Kind
from datarecs_core_api.request_examples import EXAMPLES
from datarecs_specs.documents import decode_yaml
from datarecs_specs.kinds import KINDS
from datarecs_testing.api import MemoryApiHouse, declare, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT

JOBS, HOOKS = "/api/v1/jobs", "/api/v1/webhook-endpoints"
JOB: Mapping[str, Any] = EXAMPLES[Kind.RECONCILIATION_JOB]
HOOK: Mapping[str, Any] = EXAMPLES[Kind.WEBHOOK_ENDPOINT]
YAML = {"Content-Type": "application/yaml"}
JOB_YAML = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: from-yaml, labels: {team: finance}}
spec:
  sources:
    - {name: ledger, kind: postgres, connection: ledger-pg, relation: public.entries}
    - {name: exports, kind: parquet, connection: exports, path: "entries/*.parquet"}
  stages:
    - {name: totals, type: aggregate, dimensions: [account],
       measures: [{name: total, function: sum, column: amount,
                   tolerances: [{type: ABSOLUTE, value: 0.010}]}]}
"""


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


@pytest.fixture
def ana(house: MemoryApiHouse) -> TestClient:
    return house.caller()


def with_spec(example: Mapping[str, Any], **spec: Any) -> dict[str, Any]:  # noqa: ANN401  any JSON
    return {**example, "spec": {**example["spec"], **spec}}


def pointers(answer: Any) -> list[str]:  # noqa: ANN401  an answer of the client
    assert answer.status_code == 422, answer.text
    return [one["pointer"] for one in answer.json()["errors"]]


def changes(house: MemoryApiHouse) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.op, one.changed) for one in house.store.committed(A_TENANT).changes]


class TestCreating:
    @pytest.mark.case("R01")
    @pytest.mark.parametrize("kind", Kind)
    def test_any_kind_writes_one_object_one_change_one_event(
        self, house: MemoryApiHouse, ana: TestClient, kind: Kind
    ) -> None:
        answer = ana.post(f"/api/v1/{KINDS[kind].path}", json=EXAMPLES[kind])
        made = answer.json()
        assert answer.status_code == 201, answer.text
        assert made["metadata"]["generation"] == 1
        assert made["outcome"] == "created"
        uid, rv = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
        assert answer.headers["ETag"] == f'"{uid}:{rv}"'
        read = ana.get(answer.headers["Location"])
        secrets = ("outcome", "generated_secret")
        assert read.json() == {key: made[key] for key in made if key not in secrets}
        assert changes(house) == [("CREATED", ())]
        assert len(house.store.committed(A_TENANT).outbox) == 1

    @pytest.mark.case("R01")
    def test_a_name_twice_is_a_conflict_that_writes_nothing(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        declare(ana)
        answer = ana.post(JOBS, json=with_spec(JOB, timezone="Europe/Paris"))
        assert (answer.status_code, answer.json()["reason"]) == (409, "ALREADY_EXISTS")
        assert len(changes(house)) == 1

    def test_a_name_that_is_leaving_is_a_conflict_too(self, ana: TestClient) -> None:
        declare(ana, finalizers=["example.com/keep"])  # type: ignore[arg-type]  # metadata of any form
        ana.delete(f"{JOBS}/ledger-vs-exports", headers={"If-Match": "*"})
        answer = ana.post(JOBS, json=JOB)
        assert (answer.status_code, answer.json()["reason"]) == (409, "BEING_DELETED")

    def test_takes_yaml_with_its_decimals_exact(self, ana: TestClient) -> None:
        answer = ana.post(JOBS, content=JOB_YAML, headers=YAML)
        assert answer.status_code == 201, answer.text
        (measure,) = answer.json()["spec"]["stages"][0]["measures"]
        assert measure["tolerances"][0]["value"] == "0.010"
        assert answer.json()["metadata"]["labels"] == {"team": "finance"}

    def test_goes_where_the_path_says(self, ana: TestClient) -> None:
        answer = ana.post(f"{JOBS}?namespace=books", json=JOB)
        place = answer.headers["Location"]
        assert place == f"{JOBS}/ledger-vs-exports?namespace=books"
        assert ana.get(place).status_code == 200
        assert ana.get(f"{JOBS}/ledger-vs-exports").status_code == 404

    def test_under_a_repeated_key_answers_the_same(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        key = {"Idempotency-Key": "k"}
        first = ana.post(JOBS, json=JOB, headers=key)
        again = ana.post(JOBS, json=JOB, headers=key)
        assert (again.status_code, again.text) == (201, first.text)
        assert again.headers["ETag"] == first.headers["ETag"]
        assert len(changes(house)) == 1

    def test_tried_dry_shows_the_object_and_writes_nothing(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        before = house.store.committed(A_TENANT)
        answer = ana.post(f"{HOOKS}?dry_run=1", json=HOOK, headers={"Idempotency-Key": "k"})
        assert (answer.status_code, answer.json()["outcome"]) == (200, "created")
        assert "generated_secret" not in answer.json()
        assert house.store.committed(A_TENANT) == before


class TestFaults:
    @pytest.mark.case("R07", "X21")
    def test_of_fields_the_server_sets(self, ana: TestClient) -> None:
        body = {
            **JOB,
            "metadata": {**JOB["metadata"], "uid": "x", "tenant_id": str(B_TENANT)},
            "status": {},
            "result": "MATCHED",
            "cancel_requested": True,
        }
        answer = ana.post(JOBS, json=body)
        assert set(pointers(answer)) == {
            "/metadata/uid",
            "/metadata/tenant_id",
            "/status",
            "/result",
            "/cancel_requested",
        }

    def test_all_come_at_once_with_their_places(self, ana: TestClient) -> None:
        text = JOB_YAML.replace("timezone", "x").replace("kind: parquet", "kind: parqet")
        text = text.replace("tolerances", "tolerence").replace("dimensions: [account]", "x: 1")
        answer = ana.post(JOBS, content=text, headers=YAML)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (422, "DR4021")
        assert len(problem["errors"]) >= 3
        places = {(one["pointer"], one.get("line")) for one in problem["errors"]}
        assert ("/spec/sources/1/kind", 7) in places
        assert ("/spec/stages/0/measures/0/tolerence", 11) in places
        hints = {one.get("hint") for one in problem["errors"]}
        assert "did you mean 'tolerances'?" in hints

    @pytest.mark.case("X29")
    @pytest.mark.parametrize(
        "name",
        ["a\u0000b", "\u202eevil", "zero\u200bwidth", 10_000 * "x", "..", "UPPER", "", "a b"],
    )
    def test_of_a_name_never_end_in_500(self, ana: TestClient, name: str) -> None:
        answer = ana.post(JOBS, json=with_spec(JOB) | {"metadata": {"name": name}})
        assert pointers(answer) == ["/metadata/name"]

    @pytest.mark.case("X29")
    def test_of_half_a_surrogate_pair_are_400(self, ana: TestClient) -> None:
        text = json.dumps(with_spec(JOB) | {"metadata": {"name": "\ud800"}})
        answer = ana.post(JOBS, content=text, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (400, "DR4001")

    @pytest.mark.case("X27")
    @pytest.mark.parametrize(
        "value",
        [
            '"1e999999"',
            '"1e999999999999999999"',
            "1e999999",
            "1e999999999999999999",
            f'"{39 * "1"}"',
            '"0.0000000000000000001"',
            '"0,01"',
            '"\uff11"',
            '"NaN"',
        ],
    )
    def test_of_a_decimal_are_detected_at_once(self, ana: TestClient, value: str) -> None:
        text = json.dumps(JOB).replace('"0.01"', value)
        ana.get(JOBS)
        started = time.perf_counter()
        answer = ana.post(JOBS, content=text, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
        assert (
            time.perf_counter() - started < 1
        )  # milliseconds in truth; a bomb takes half a minute

    @pytest.mark.case("X28")
    def test_of_a_tolerance_point_at_it(self, ana: TestClient) -> None:
        place = "/spec/stages/0/measures/0/tolerances/0/value"
        for kind, value in (("ABSOLUTE", "-1"), ("ABSOLUTE", "NaN"), ("PERCENTAGE", "101")):
            text = json.dumps(JOB).replace("0.01", value).replace("ABSOLUTE", kind)
            answer = ana.post(JOBS, content=text, headers={"Content-Type": "application/json"})
            assert pointers(answer) == [place]
        zero = json.loads(json.dumps(JOB).replace("0.01", "0"))
        assert ana.post(JOBS, json=zero).status_code == 201

    @pytest.mark.case("X30")
    def test_of_a_list_that_is_too_long_name_the_limit(self, ana: TestClient) -> None:
        sources = [{**JOB["spec"]["sources"][0], "name": f"s{n}"} for n in range(65)]
        stage = JOB["spec"]["stages"][0]
        many = [{**stage, "name": f"stage-{n}"} for n in range(1001)]
        wide = {**stage, "dimensions": [f"d{n}" for n in range(1000)]}
        for spec in ({"sources": sources}, {"stages": many}, {"stages": [wide]}):
            answer = ana.post(JOBS, json=with_spec(JOB, **spec))
            assert answer.status_code == 422
            assert any("allowed" in one["message"] for one in answer.json()["errors"])

    @pytest.mark.case("X23", "X24")
    @pytest.mark.parametrize(
        "text",
        [
            6_000 * "[",
            "a: &a [x]\n" + "".join(f"k{n}: *a\n" for n in range(101)),
            "a: &a {<<: *a}\n",
            "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)),
        ],
    )
    def test_of_a_yaml_bomb_are_detected_by_counting(self, ana: TestClient, text: str) -> None:
        started = time.perf_counter()
        answer = ana.post(JOBS, content=text, headers=YAML)
        assert answer.status_code == 422
        assert time.perf_counter() - started < 2  # a bomb takes many

    @pytest.mark.case("X25")
    @pytest.mark.parametrize(
        "text",
        [
            JOB_YAML + "x: !!python/object:os.system {}\n",
            JOB_YAML + "x: !!binary aGk=\n",
            JOB_YAML + "kind: ReconciliationJob\n",
            JOB_YAML + "x:\n\t- 1\n",
        ],
    )
    def test_of_yaml_name_the_line(self, ana: TestClient, text: str) -> None:
        answer = ana.post(JOBS, content=text, headers=YAML)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["line"] in {12, 13}

    def test_of_many_documents_name_the_command_that_splits_them(self, ana: TestClient) -> None:
        answer = ana.post(JOBS, content=f"{JOB_YAML}---\n{JOB_YAML}", headers=YAML)
        assert answer.status_code == 422
        assert "datarecs apply" in answer.json()["detail"]

    def test_of_another_kind_or_name_than_the_paths(self, ana: TestClient) -> None:
        assert "/kind" in pointers(ana.post(JOBS, json=HOOK))
        put = ana.put(f"{JOBS}/other", json=JOB, headers={"If-Match": "*"})
        assert pointers(put) == ["/metadata/name"]
        body = with_spec(JOB) | {"metadata": {"name": "x", "namespace": "there"}}
        assert pointers(ana.post(f"{JOBS}?namespace=here", json=body)) == ["/metadata/namespace"]

    @pytest.mark.case("X68")
    def test_never_repeat_what_was_sent(self, ana: TestClient) -> None:
        secret = "hunter2-Zq9"
        connection: Mapping[str, Any] = EXAMPLES[Kind.CONNECTION]
        for auth in ({"password": secret}, {"password": {"value": secret}}, {"password": [secret]}):
            body = with_spec(connection, auth=auth, config={"host": secret + "!", "port": secret})
            answer = ana.post("/api/v1/connections", json=body)
            assert answer.status_code == 422
            assert secret not in answer.text

    @pytest.mark.parametrize("namespace", ["UPPER", "", "a%00", 64 * "x", "*"])
    def test_of_the_namespace_are_in_the_query(self, ana: TestClient, namespace: str) -> None:
        answer = ana.post(f"{JOBS}?namespace={namespace}", json=JOB)
        assert pointers(answer) == ["/query/namespace"]


class TestReading:
    @pytest.mark.case("U27")
    @pytest.mark.parametrize("kind", Kind)
    def test_is_not_repeated_while_nothing_changed(self, ana: TestClient, kind: Kind) -> None:
        place = declare(ana, kind)
        etag = ana.get(place).headers["ETag"]
        answer = ana.get(place, headers={"If-None-Match": etag})
        assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", etag)
        assert ana.get(place, headers={"If-None-Match": '"x"'}).status_code == 200
        assert ana.get(place, headers={"If-None-Match": "*"}).status_code == 304

    def test_finds_an_object_by_its_uid(self, ana: TestClient) -> None:
        ana.post(f"{JOBS}?namespace=books", json=JOB)
        uid = ana.get(f"{JOBS}?namespace=*").json()["items"][0]["metadata"]["uid"]
        assert ana.get(f"{JOBS}/{uid}").json()["metadata"]["namespace"] == "books"
        assert ana.get(f"{HOOKS}/{uid}").status_code == 404
        assert ana.get(f"{JOBS}/{uid.upper()}").status_code == 404

    @pytest.mark.parametrize(
        "name", ["nothing", "a%00b", "UPPER", "%2e%2e", 300 * "a", "caf%C3%A9"]
    )
    def test_of_an_unknown_name_is_404(self, ana: TestClient, name: str) -> None:
        answer = ana.get(f"{JOBS}/{name}")
        assert (answer.status_code, answer.json()["code"]) == (404, "DR4004")

    def test_of_a_list_is_complete_over_its_pages(self, ana: TestClient) -> None:
        names = {f"job-{number:02}" for number in range(11)}
        for name in names:
            declare(ana, name=name)
        items, url = [], f"{JOBS}?limit=4"
        while url:
            answer = ana.get(url)
            items += [one["metadata"]["name"] for one in answer.json()["items"]]
            url = answer.headers.get("Link", "<>").partition(">")[0][1:]
        assert sorted(items) == sorted(names)

    def test_of_a_list_stays_in_its_namespace(self, ana: TestClient) -> None:
        for query in ("", "?namespace=books"):
            ana.post(f"{JOBS}{query}", json=JOB)
        counts = [
            len(ana.get(f"{JOBS}{query}").json()["items"])
            for query in ("", "?namespace=books", "?namespace=none", "?namespace=*")
        ]
        assert counts == [1, 1, 0, 2]

    @pytest.mark.case("X03")
    def test_of_a_list_refuses_a_cursor_of_another_list(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        for name in ("a", "b"):
            declare(ana, name=name)
        cursor = ana.get(f"{JOBS}?limit=1").json()["next"]
        for url in (f"{HOOKS}?cursor=", f"{JOBS}?namespace=books&cursor=", "/api/v1/runs?cursor="):
            assert ana.get(f"{url}{cursor}").json()["code"] == "DR4006"
        bob = house.caller(B_TENANT)
        assert bob.get(f"{JOBS}?cursor={cursor}").json()["code"] == "DR4006"


class TestReplacing:
    @pytest.mark.case("R02")
    def test_by_the_same_again_changes_nothing(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        place = declare(ana)
        before = ana.get(place)
        body = dict(reversed({**JOB, "spec": before.json()["spec"]}.items()))
        answer = ana.put(place, json=body, headers={"If-Match": before.headers["ETag"]})
        assert (answer.status_code, answer.json()["outcome"]) == (200, "unchanged")
        assert answer.headers["ETag"] == before.headers["ETag"]
        assert len(changes(house)) == 1

    @pytest.mark.case("R03")
    def test_of_the_spec_makes_a_new_generation(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        place = declare(ana)
        etag = ana.get(place).headers["ETag"]
        body = with_spec(JOB, timezone="Europe/Paris")
        answer = ana.put(place, json=body, headers={"If-Match": etag})
        assert answer.json()["metadata"]["generation"] == 2
        assert answer.json()["outcome"] == "configured"
        assert changes(house)[-1] == ("UPDATED", ("spec",))

    @pytest.mark.case("R05")
    def test_of_labels_preserves_the_generation(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        place = declare(ana)
        body = {**JOB, "metadata": {"name": "ledger-vs-exports", "labels": {"team": "x"}}}
        answer = ana.put(place, json=body, headers={"If-Match": "*"})
        assert answer.json()["metadata"]["generation"] == 1
        assert changes(house)[-1] == ("UPDATED", ("labels",))

    @pytest.mark.case("R09", "U27")
    def test_needs_the_version_it_replaces(self, house: MemoryApiHouse, ana: TestClient) -> None:
        place = declare(ana)
        etag = ana.get(place).headers["ETag"]
        body = with_spec(JOB, timezone="Europe/Paris")
        missing = ana.put(place, json=body)
        assert (missing.status_code, missing.json()["code"]) == (428, "DR4013")
        assert ana.put(place, json=body, headers={"If-Match": etag}).status_code == 200
        stale = ana.put(place, json=JOB, headers={"If-Match": etag})
        assert (stale.status_code, stale.json()["code"]) == (412, "DR4012")
        assert stale.headers["ETag"] == ana.get(place).headers["ETag"]
        assert ana.put(place, json=JOB, headers={"If-Match": "*"}).status_code == 200
        actions = [link.row.action for link in house.store.committed(A_TENANT).audit]
        assert actions[-2:] == ["resource.replace", "resource.overwrite"]

    @pytest.mark.case("R06")
    def test_two_writers_of_one_version_are_one_winner(self, ana: TestClient) -> None:
        place = declare(ana)
        match = {"If-Match": ana.get(place).headers["ETag"]}
        bodies = [with_spec(JOB, timezone=zone) for zone in ("Europe/Paris", "Asia/Tokyo")]
        statuses = [ana.put(place, json=body, headers=match).status_code for body in bodies]
        assert statuses == [200, 412]

    def test_of_what_is_not_there_is_404_unless_it_is_applied(self, ana: TestClient) -> None:
        place, match = f"{JOBS}/ledger-vs-exports", {"If-Match": "*"}
        assert ana.put(place, json=JOB, headers=match).status_code == 404
        made = ana.put(f"{place}?apply=1", json=JOB, headers=match)
        assert (made.status_code, made.json()["outcome"]) == (201, "created")
        assert made.headers["Location"] == place
        again = ana.put(f"{place}?apply=1", json=JOB, headers=match)
        assert (again.status_code, again.json()["outcome"]) == (200, "unchanged")

    def test_a_dry_run_reports_what_would_happen(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        place = declare(ana)
        before = house.store.committed(A_TENANT)
        for body, outcome in ((JOB, "unchanged"), (with_spec(JOB, timezone="UTC"), "unchanged")):
            answer = ana.put(f"{place}?dry_run=1", json=body, headers={"If-Match": "*"})
            assert answer.json()["outcome"] == outcome
        body = with_spec(JOB, timezone="Asia/Tokyo")
        answer = ana.put(f"{place}?apply=1&dry_run=1", json=body, headers={"If-Match": "*"})
        assert answer.json()["outcome"] == "configured"
        assert answer.json()["spec"]["timezone"] == "Asia/Tokyo"
        assert house.store.committed(A_TENANT) == before


class TestDeleting:
    @pytest.mark.case("R11")
    def test_returns_the_last_state(self, house: MemoryApiHouse, ana: TestClient) -> None:
        place = declare(ana)
        shown = ana.get(place)
        answer = ana.delete(place, headers={"If-Match": shown.headers["ETag"]})
        assert answer.status_code == 200
        assert answer.json()["spec"] == shown.json()["spec"]
        assert ana.get(place).status_code == 404
        (deleted,) = (one for one in house.store.committed(A_TENANT).changes if one.op == "DELETED")
        assert deleted.resource is not None
        assert deleted.resource.spec == shown.json()["spec"]

    @pytest.mark.case("R11")
    def test_waits_for_finalizers(self, ana: TestClient) -> None:
        place = declare(ana, finalizers=["example.com/keep"])  # type: ignore[arg-type]  # metadata of any form
        answer = ana.delete(place, headers={"If-Match": "*"})
        assert answer.status_code == 202
        marked = ana.get(place)
        assert marked.json()["metadata"]["deletionTimestamp"] is not None
        metadata = {
            "name": "ledger-vs-exports",
            "finalizers": ["example.com/keep", "example.com/b"],
        }
        added = ana.put(place, json={**JOB, "metadata": metadata}, headers={"If-Match": "*"})
        assert added.status_code == 422
        gone = ana.put(place, json=JOB, headers={"If-Match": marked.headers["ETag"]})
        assert gone.status_code == 200
        assert ana.get(place).status_code == 404

    @pytest.mark.case("R09")
    def test_needs_the_version_it_deletes(self, ana: TestClient) -> None:
        place = declare(ana)
        assert ana.delete(place).status_code == 428
        stale = ana.delete(place, headers={"If-Match": '"x:1"'})
        assert (stale.status_code, stale.headers["ETag"]) == (412, ana.get(place).headers["ETag"])


@pytest.mark.case("X65")
def test_a_changed_host_needs_a_separate_secret(house: MemoryApiHouse) -> None:
    """The reference does not follow the connection to another host."""
    connection: Mapping[str, Any] = EXAMPLES[Kind.CONNECTION]
    house.secret_uses["env:DATARECS_CONN_DEFAULT_LEDGER"] = ("postgres:ledger.example.com",)
    ana = house.caller()
    place = "/api/v1/connections/ledger-pg"
    assert ana.post("/api/v1/connections", json=connection).status_code == 201
    config = {**connection["spec"]["config"], "host": "evil.example.com"}
    put = ana.put(place, json=with_spec(connection, config=config), headers={"If-Match": "*"})
    assert (put.status_code, pointers(put)) == (422, ["/spec/auth/password"])
    assert "DATARECS_SECRETS__USES" in put.text
    assert ana.get(place).json()["spec"]["config"]["host"] == "ledger.example.com"


@pytest.mark.parametrize("security", ["PLAINTEXT", "SSL"])
def test_a_kafka_connection_without_login_is_applied(ana: TestClient, security: str) -> None:
    """As `apply` does: what `validate` accepts is sent with its defaults."""
    text = f"""\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: events}}
spec:
  type: kafka
  config: {{brokers: ["broker.example.com:9093"], security: {security},
           transport: unencrypted-accepted}}
"""
    (checked,) = decode_yaml(text.encode())
    declared, _ = checked.require()
    body = {**EXAMPLES[Kind.CONNECTION], "metadata": {"name": "events"}, "spec": declared.spec}
    made = ana.post("/api/v1/connections", json=body)
    assert made.status_code == 201, made.text
    again = ana.put(
        "/api/v1/connections/events",
        json={**body, "spec": made.json()["spec"]},
        headers={"If-Match": "*"},
    )
    assert (again.status_code, again.json()["outcome"]) == (200, "unchanged")


class TestASigningSecret:
    def test_is_shown_in_the_first_answer_alone(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        key = {"Idempotency-Key": "k"}
        first = ana.post(HOOKS, json=HOOK, headers=key)
        secret = first.json()["generated_secret"]
        assert secret.startswith("whsec_")
        again = ana.post(HOOKS, json=HOOK, headers=key)
        assert again.status_code == 201
        for answer in (again, ana.get(f"{HOOKS}/erp-hook"), ana.get(HOOKS)):
            assert secret not in answer.text
        state = house.store.committed(A_TENANT)
        assert secret not in str(state)
        assert len(state.secrets) == 1

    def test_is_made_when_signing_becomes_managed(self, house: MemoryApiHouse) -> None:
        house.secret_uses["env:DATARECS_CONN_DEFAULT_HOOK"] = ("signing:erp.example.com",)
        ana = house.caller()
        signing = {"mode": "reference", "secret_refs": ["env:DATARECS_CONN_DEFAULT_HOOK"]}
        made = ana.post(HOOKS, json=with_spec(HOOK, signing=signing))
        assert made.status_code == 201, made.text
        assert "generated_secret" not in made.json()
        managed = ana.put(f"{HOOKS}/erp-hook", json=HOOK, headers={"If-Match": "*"})
        assert managed.json()["generated_secret"].startswith("whsec_")

    def test_needs_the_permission_to_write_secrets(self, house: MemoryApiHouse) -> None:
        writer = house.bearing(house.key(permissions=["read", "resource.write"]))
        refused = writer.post(HOOKS, json=HOOK)
        assert (refused.status_code, refused.json()["code"]) == (403, "DR6012")
        assert "secret.write" in refused.json()["detail"]
        assert writer.post(JOBS, json=JOB).status_code == 201

    @pytest.mark.case("X65")
    @pytest.mark.parametrize(
        "reference",
        [
            "env:DATARECS_KEK",
            "env:DATARECS_CONN_OTHER_PW",
            "file:/etc/shadow",
            "vault:x",
            "hunter2",
        ],
    )
    def test_reference_outside_the_tenant_is_refused(self, ana: TestClient, reference: str) -> None:
        signing = {"mode": "reference", "secret_refs": [reference]}
        answer = ana.post(HOOKS, json=with_spec(HOOK, signing=signing))
        assert pointers(answer) == ["/spec/signing/secret_refs/0"]
        assert reference not in answer.text


class TestAConnectionInUse:
    PLACE = "/api/v1/connections/ledger-pg"
    ANY: ClassVar = {"If-Match": "*"}

    @pytest.fixture
    def jobs(self, ana: TestClient) -> list[str]:
        """Twelve jobs that read from it, of two namespaces."""
        declare(ana, Kind.CONNECTION)
        names = [f"job-{number:02}" for number in range(11)]
        for name in names:
            declare(ana, name=name)
        declare(ana, name="theirs", namespace="team")
        return [*names, "team/theirs"]

    @pytest.mark.case("R59")
    def test_is_marked_and_stays(self, ana: TestClient, jobs: list[str]) -> None:
        assert jobs
        for _ in range(2):
            answer = ana.delete(self.PLACE, headers=self.ANY)
            assert answer.status_code == 202
            assert answer.json()["metadata"]["finalizers"] == ["datarecs.io/in-use"]
        assert ana.get(self.PLACE).json()["metadata"]["deletionTimestamp"]

    def test_is_judged_after_its_version(self, ana: TestClient, jobs: list[str]) -> None:
        assert jobs
        answer = ana.delete(self.PLACE, headers={"If-Match": '"another"'})
        assert answer.status_code == 412

    def test_of_another_namespace_is_used_by_none(self, ana: TestClient, jobs: list[str]) -> None:
        assert jobs
        declare(ana, Kind.CONNECTION, namespace="team")
        answer = ana.delete(f"{self.PLACE}?namespace=team", headers=self.ANY)
        assert answer.status_code == 200


@pytest.mark.case("X02")
def test_a_tenant_named_by_the_caller_has_no_effect(house: MemoryApiHouse) -> None:
    ana, other = house.caller(), str(B_TENANT)
    headers = {"X-Tenant": other, "tenantid": other, "Cookie": f"tenant_id={other}"}
    refused = ana.post(f"{JOBS}?tenant_id={other}&tenant={other}", json=JOB, headers=headers)
    assert pointers(refused) == ["/query/tenant_id", "/query/tenant"]
    assert ana.post(JOBS, json=JOB, headers=headers).status_code == 201
    assert house.caller(B_TENANT).get(JOBS).json()["items"] == []
    assert len(ana.get(JOBS, headers=headers).json()["items"]) == 1


def test_a_viewer_reads_and_writes_nothing(house: MemoryApiHouse) -> None:
    declare(house.caller())
    viewer = house.caller(A_TENANT, Role.VIEWER)
    assert viewer.get(JOBS).status_code == 200
    assert viewer.post(JOBS, json=JOB).status_code == 403
