"""Repository suite of the catalogue: objects, for every pair of backends."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from datarecs_application.catalogue.entities import Entities
from datarecs_application.catalogue.tables import Tables
from datarecs_core.catalog import layout
from datarecs_core.catalog.pointers import Delete, Op, Outcome
from datarecs_core.catalog.records import Account, Catalog, Connector, Namespace, View
from datarecs_core.errors.catalogue import (
    CatalogueInconsistentError,
    CatalogueNotFoundError,
    CataloguePreconditionError,
    ContentConflictError,
    NameConflictError,
    VersionConflictError,
)
from datarecs_core.errors.storage import BlobCorruptError
from datarecs_core.values import ResourceUid
from datarecs_testing.builders import A_TENANT, B_TENANT, an_id
from datarecs_testing.catalogue import (
    DAWN,
    CatalogueStores,
    FaultyPointers,
    a_catalog,
    a_namespace,
    a_table,
    a_view,
    an_account,
)
from datarecs_testing.threads import Work, at_once

ROUNDS = 60


class Died(Exception):  # noqa: N818  an event of the test
    pass


class CatalogueConformance:
    """Subclass it and provide the fixture `catalogue`: an empty pair of stores."""

    @pytest.mark.case("S19")
    def test_an_object_is_created_once_and_read_by_id_and_by_name(
        self, catalogue: CatalogueStores
    ) -> None:
        namespace = catalogue.namespace()
        tables, table = Tables(catalogue.account()), a_table(namespace)
        first = tables.create(table)
        assert tables.create(table) == first
        assert first.version == 1
        assert tables.get(table.id) == first
        assert tables.by_name(_by_name(namespace, "orders")) == first
        assert tables.by_name(_by_name(namespace, "other")) is None
        assert tables.get(an_id()) is None

    @pytest.mark.case("S19")
    def test_a_name_in_use_is_refused_without_a_trace(self, catalogue: CatalogueStores) -> None:
        namespace = catalogue.namespace()
        tables = Tables(catalogue.account())
        first = tables.create(a_table(namespace))
        keys = _keys(catalogue)
        second = a_table(namespace)
        with pytest.raises(NameConflictError):
            tables.create(second)
        with pytest.raises(ContentConflictError):
            tables.create(replace(first.record, description="another"))
        assert _keys(catalogue) == keys

    @pytest.mark.case("S11")
    @pytest.mark.parametrize("name", ["50%_/x", "..", ".", "~t", "a b", "ü 🦆", "x" * 255, "by-id"])
    def test_an_odd_name_is_read_as_it_was_written(
        self, catalogue: CatalogueStores, name: str
    ) -> None:
        namespace = catalogue.namespace()
        tables = Tables(catalogue.account())
        table = tables.create(a_table(namespace, name=f"t{name}"))
        assert tables.by_name(_by_name(namespace, f"t{name}")) == table
        assert table.record.name == f"t{name}"

    def test_objects_of_every_kind_have_their_parents(self, catalogue: CatalogueStores) -> None:
        account = catalogue.account()
        catalog = a_catalog()
        with pytest.raises(CataloguePreconditionError):
            Entities(account, Catalog).create(catalog)
        Entities(account, Account).create(an_account())
        outer = a_namespace(catalog.id, "sales")
        with pytest.raises(CataloguePreconditionError):
            Entities(account, Namespace).create(outer)
        Entities(account, Catalog).create(catalog)
        inner = a_namespace(catalog.id, "sales", "eu", parent_id=outer.id)
        with pytest.raises(CataloguePreconditionError):
            Entities(account, Namespace).create(inner)
        Entities(account, Namespace).create(outer)
        with pytest.raises(CataloguePreconditionError):
            Entities(account, Namespace).create(replace(inner, parent_id=an_id()))
        Entities(account, Namespace).create(inner)
        view = Entities(account, View).create(a_view(inner))
        connector = Entities(account, Connector).create(a_connector())
        assert Entities(account, View).get(view.record.id) == view
        by_name = layout.connector_by_name(A_TENANT, connector.record.name)
        assert Entities(account, Connector).by_name(by_name) == connector
        with pytest.raises(CataloguePreconditionError):
            Entities(account, Namespace).delete(outer.id)

    @pytest.mark.case("S17")
    def test_an_update_with_equal_content_is_no_new_version(
        self, catalogue: CatalogueStores
    ) -> None:
        namespace = catalogue.namespace()
        tables = Tables(catalogue.account())
        stored = tables.create(a_table(namespace, properties={"a": "1", "b": "2"}))
        same = replace(stored.record, properties={"b": "2", "a": "1"})
        again = tables.update(same, expected_version=1)
        assert (again.version, again.blob_key) == (1, stored.blob_key)
        changed = tables.update(replace(same, description="new"), expected_version=1)
        assert changed.version == 2
        assert tables.get(stored.record.id) == changed

    @pytest.mark.case("S28")
    def test_a_stale_version_changes_and_deletes_nothing(self, catalogue: CatalogueStores) -> None:
        namespace = catalogue.namespace()
        tables = Tables(catalogue.account())
        table = tables.create(a_table(namespace)).record
        newest = tables.update(replace(table, description="new"), expected_version=1)
        with pytest.raises(VersionConflictError):
            tables.update(replace(table, description="stale"), expected_version=1)
        with pytest.raises(CataloguePreconditionError):
            tables.delete(table.id, expected_version=1)
        assert tables.get(table.id) == newest
        assert tables.delete(table.id, expected_version=2)

    @pytest.mark.case("S22")
    def test_a_rename_shows_exactly_one_of_the_two_names_at_any_moment(
        self, catalogue: CatalogueStores
    ) -> None:
        namespace = catalogue.namespace()
        account = catalogue.account()
        tables = Tables(account)
        stored = tables.create(a_table(namespace, name="a"))
        names = {_by_name(namespace, name) for name in "ab"}
        seen: list[int] = []

        def read() -> None:
            seen.extend(len(account.pointers.get_many(names)) for _ in range(ROUNDS))

        def rename() -> None:
            for version in range(1, 16):
                name = "ab"[version % 2]
                tables.update(replace(stored.record, name=name), expected_version=version)

        at_once([rename, read, read])
        assert set(seen) == {1}

    @pytest.mark.case("S25")
    def test_a_table_that_comes_after_the_children_were_counted_stops_the_deletion(
        self, catalogue: CatalogueStores
    ) -> None:
        namespace = catalogue.namespace()
        account = catalogue.account()
        table = a_table(namespace)
        arrived: list[str] = []

        def create_first(ops: Sequence[Op]) -> None:
            del ops
            if not arrived:
                arrived.append(table.name)
                Tables(account).create(table)

        slow = FaultyPointers(real=account.pointers, before=create_first)
        with pytest.raises(CataloguePreconditionError):
            Entities(replace(account, pointers=slow), Namespace).delete(namespace.id)
        assert Tables(account).get(table.id) is not None
        assert Entities(account, Namespace).get(namespace.id) is not None

    def test_a_namespace_with_namespaces_below_it_is_not_renamed(
        self, catalogue: CatalogueStores
    ) -> None:
        account = catalogue.account()
        namespaces = Entities(account, Namespace)
        outer = catalogue.namespace()
        Tables(account).create(a_table(outer))
        renamed = replace(outer, path=("trade",))
        assert namespaces.update(renamed, expected_version=1).version == 2
        inner = a_namespace(outer.catalog_id, "trade", "eu", parent_id=outer.id)
        namespaces.create(inner)
        with pytest.raises(CataloguePreconditionError):
            namespaces.update(outer, expected_version=2)
        assert namespaces.delete(inner.id)
        assert namespaces.update(outer, expected_version=2).version == 3

    @pytest.mark.case("S25")
    def test_a_namespace_that_is_renamed_leaves_no_namespace_behind(
        self, catalogue: CatalogueStores
    ) -> None:
        account = catalogue.account()
        namespaces = Entities(account, Namespace)
        first = catalogue.namespace()
        for number in range(ROUNDS):
            outer = a_namespace(first.catalog_id, f"n{number}")
            namespaces.create(outer)
            inner = a_namespace(first.catalog_id, f"n{number}", "eu", parent_id=outer.id)
            outcomes: list[str] = []
            renamed = replace(outer, path=(f"m{number}",))
            works: list[Work] = [
                partial(_create, outcomes, partial(namespaces.create, inner)),
                partial(_create, outcomes, partial(namespaces.update, renamed, expected_version=1)),
            ]
            at_once(works)
            assert sorted(outcomes) == ["CataloguePreconditionError", "created"]

    @pytest.mark.case("S24")
    def test_a_stale_update_does_not_touch_the_new_owner_of_a_name(
        self, catalogue: CatalogueStores
    ) -> None:
        namespace = catalogue.namespace()
        tables = Tables(catalogue.account())
        first = tables.create(a_table(namespace)).record
        tables.update(replace(first, name="elsewhere"), expected_version=1)
        second = tables.create(a_table(namespace))
        with pytest.raises(VersionConflictError):
            tables.update(replace(first, description="stale"), expected_version=1)
        with pytest.raises(NameConflictError):
            tables.update(first, expected_version=2)
        assert tables.by_name(_by_name(namespace, "orders")) == second

    @pytest.mark.case("S23")
    def test_a_table_and_a_view_never_share_a_name(self, catalogue: CatalogueStores) -> None:
        namespace = catalogue.namespace()
        account = catalogue.account()
        for number in range(10):
            outcomes: list[str] = []
            table = a_table(namespace, name=f"same-{number}")
            view = a_view(namespace, name=f"same-{number}")
            works: list[Work] = [
                partial(_create, outcomes, partial(Tables(account).create, table)),
                partial(_create, outcomes, partial(Entities(account, View).create, view)),
            ]
            at_once(works)
            assert sorted(outcomes) == ["NameConflictError", "created"]

    @pytest.mark.case("S25")
    def test_a_deleted_namespace_leaves_no_table_behind(self, catalogue: CatalogueStores) -> None:
        first = catalogue.namespace()
        account = catalogue.account()
        namespaces, tables = Entities(account, Namespace), Tables(account)
        for number in range(ROUNDS):
            namespace = a_namespace(first.catalog_id, f"n{number}")
            namespaces.create(namespace)
            outcomes: list[str] = []
            table = a_table(namespace)
            works: list[Work] = [
                partial(_create, outcomes, partial(tables.create, table)),
                partial(_create, outcomes, partial(namespaces.delete, namespace.id)),
            ]
            at_once(works)
            exists = (namespaces.get(namespace.id), tables.get(table.id))
            assert [one is None for one in exists] in ([False, False], [True, True])
            assert sorted(outcomes) == ["CataloguePreconditionError", "created"]

    @pytest.mark.case("S26")
    def test_tables_created_at_once_in_one_namespace_all_succeed(
        self, catalogue: CatalogueStores
    ) -> None:
        namespace = catalogue.namespace()
        tables = Tables(catalogue.account())

        def create(writer: int) -> None:
            for number in range(25):
                tables.create(a_table(namespace, name=f"t{writer}-{number}"))

        at_once([partial(create, writer) for writer in range(4)])
        marker = layout.namespace_children(A_TENANT, namespace.id)
        pointer = catalogue.account().pointers.get(marker)
        assert pointer is not None
        assert pointer.version == 100

    @pytest.mark.case("S27")
    def test_a_deletion_needs_no_record_and_is_repeated_without_effect(
        self, catalogue: CatalogueStores
    ) -> None:
        account = catalogue.account()
        tables = Tables(account)
        stored = tables.create(a_table(catalogue.namespace()))
        account.blobs.delete(stored.blob_key)
        with pytest.raises(CatalogueInconsistentError):
            tables.get(stored.record.id)
        assert tables.delete(stored.record.id)
        assert not tables.delete(stored.record.id)
        with pytest.raises(CatalogueNotFoundError):
            tables.delete(stored.record.id, expected_version=1)
        with pytest.raises(CatalogueNotFoundError):
            tables.update(stored.record, expected_version=1)

    @pytest.mark.case("S28")
    def test_an_object_with_children_is_not_deleted(self, catalogue: CatalogueStores) -> None:
        table = catalogue.table()
        account = catalogue.account()
        keys = _keys(catalogue)
        deletions: list[Work] = [
            partial(Entities(account, Namespace).delete, table.namespace_id),
            partial(Entities(account, Catalog).delete, table.catalog_id),
            partial(Entities(account, Account).delete, A_TENANT),
        ]
        for delete in deletions:
            with pytest.raises(CataloguePreconditionError):
                delete()
        assert _keys(catalogue) == keys
        assert Tables(account).delete(table.id)
        assert Entities(account, Namespace).delete(table.namespace_id)
        assert Entities(account, Catalog).delete(table.catalog_id)
        assert [one for one in _keys(catalogue) if "/deletions/" not in one] == []

    @pytest.mark.case("S20")
    def test_a_crash_between_blob_and_pointers_shows_nothing(
        self, catalogue: CatalogueStores
    ) -> None:
        def die(ops: Sequence[Op]) -> None:
            del ops
            raise Died

        namespace = catalogue.namespace()
        account = catalogue.account()
        table = a_table(namespace)
        broken = replace(account, pointers=FaultyPointers(real=account.pointers, before=die))
        with pytest.raises(Died):
            Tables(broken).create(table)
        assert Tables(account).get(table.id) is None
        assert Tables(account).create(table).version == 1

    @pytest.mark.case("S20")
    def test_a_crash_after_the_commit_is_repeated_without_effect(
        self, catalogue: CatalogueStores
    ) -> None:
        def die(outcome: Outcome) -> None:
            del outcome
            raise Died

        namespace = catalogue.namespace()
        account = catalogue.account()
        table = a_table(namespace)
        broken = replace(account, pointers=FaultyPointers(real=account.pointers, after=die))
        with pytest.raises(Died):
            Tables(broken).create(table)
        keys = _keys(catalogue)
        assert Tables(account).create(table).version == 1
        renamed = replace(table, name="renamed")
        with pytest.raises(Died):
            Tables(broken).update(renamed, expected_version=1)
        assert Tables(account).update(renamed, expected_version=1).version == 2
        assert len(_keys(catalogue)) == len(keys)

    @pytest.mark.case("S21")
    @pytest.mark.parametrize("missing", [0, 1], ids=["shared claim", "name"])
    def test_half_of_an_object_is_reported_and_not_repaired(
        self, catalogue: CatalogueStores, missing: int
    ) -> None:
        namespace = catalogue.namespace()
        account = catalogue.account()
        table = Tables(account).create(a_table(namespace)).record
        where = (A_TENANT, namespace.catalog_id, namespace.id, table.name)
        key = [layout.relation_by_name(*where), layout.table_by_name(*where)][missing]
        account.pointers.batch([Delete(key=key, expected=1)])
        keys = _keys(catalogue)
        with pytest.raises(CatalogueInconsistentError):
            Tables(account).create(table)
        assert _keys(catalogue) == keys

    @pytest.mark.case("S18")
    def test_a_damaged_record_is_refused(self, catalogue: CatalogueStores) -> None:
        account = catalogue.account()
        stored = Tables(account).create(a_table(catalogue.namespace()))
        damaged = account.blobs.get(stored.blob_key)[:-1] + b"?"
        account.blobs.put(stored.blob_key, damaged)
        with pytest.raises(BlobCorruptError):
            Tables(account).get(stored.record.id)

    @pytest.mark.case("S14")
    @pytest.mark.case("X01")
    def test_an_object_of_another_account_does_not_exist(self, catalogue: CatalogueStores) -> None:
        table = catalogue.table()
        theirs = catalogue.account(tenant=B_TENANT)
        assert Tables(theirs).get(table.id) is None
        assert not Tables(theirs).delete(table.id)
        with pytest.raises(CataloguePreconditionError):
            Tables(theirs).create(table)
        assert Tables(catalogue.account()).get(table.id) is not None


def a_connector() -> Connector:
    return Connector(
        id=an_id(),
        connection_uid=ResourceUid(an_id()),
        name="ledger",
        source_kind="postgres",
        destination_ids=(),
        secret_refs=("env:LEDGER_PASSWORD",),
        created_at=DAWN,
        updated_at=DAWN,
    )


def _by_name(namespace: Namespace, name: str) -> str:
    return layout.table_by_name(A_TENANT, namespace.catalog_id, namespace.id, name)


def _keys(catalogue: CatalogueStores) -> list[str]:
    """Every pointer below catalogs, namespaces, tables and views, without markers."""
    account = catalogue.account()
    families = ("catalogs", "namespaces", "tables", "views")
    prefixes = [f"/accounts/{A_TENANT}/{family}/" for family in families]
    keys = [one.key for prefix in prefixes for one in account.pages(prefix)]
    return [key for key in keys if not key.endswith("/markers/children")]


def _create(outcomes: list[str], create: Work) -> None:
    try:
        create()
    except (NameConflictError, CataloguePreconditionError) as refused:
        outcomes.append(type(refused).__name__)
    else:
        outcomes.append("created")
