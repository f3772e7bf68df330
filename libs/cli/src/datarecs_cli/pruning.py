"""`apply --prune`: deletes the objects of an apply set that its files no longer declare.

The set is what a label selector selects, in the namespaces of the files. Every declared object must
belong to it, so that a set never deletes what another one declares.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from datarecs_cli.applying import Applied, Outcome, send_or_refusal, shown_name, waits_of
from datarecs_cli.client import ALL, Api, ApiRequest, Json, path_of
from datarecs_cli.invocation import UsageFault
from datarecs_cli.refusals import RefusedError
from datarecs_core.resources.declared import Declared
from datarecs_core.resources.selector import Operator, Selector, SelectorError, parse_selector
from datarecs_specs.kinds import KINDS, KindEntry


@dataclass(frozen=True, slots=True)
class Leftover:
    """An object of the set that no file declares."""

    entry: KindEntry
    resource: Json

    @property
    def name(self) -> str:
        return shown_name(self.entry, str(self.metadata["name"]))

    @property
    def metadata(self) -> Mapping[str, object]:
        metadata = self.resource.get("metadata")
        return metadata if isinstance(metadata, Mapping) else {}


def check_set(text: str, declared: Sequence[Declared]) -> None:
    """Check that the selector names a set, and that every declared object belongs to it.

    Raises:
        UsageFault: nothing was sent.
    """
    try:
        selector = parse_selector(text)
    except SelectorError as error:
        raise UsageFault(f"-l {text}: {error.reason}; {error.fix}") from error
    if not _names_one_set(selector):
        raise UsageFault(
            f"-l {text}: --prune needs the labels of one set, such as set=books or "
            "set=books,team=finance"
        )
    for one in declared:
        if not selector.matches(one.labels):
            name = shown_name(KINDS[one.kind], one.name)
            raise UsageFault(f"{name} does not match -l {text}: add the label to its metadata")


def _names_one_set(selector: Selector) -> bool:
    """A selector of several values or of any value also selects what other sets declare."""
    return bool(selector.requirements) and all(
        one.operator is Operator.IN and len(one.values) == 1 for one in selector.requirements
    )


def leftovers(api: Api, text: str, declared: Sequence[Declared]) -> list[Leftover]:
    """Objects of the set that are not declared, those that refer to others first.

    Raises:
        RefusedError, ServerUnreachableError: not all of them are known, so none may be deleted.
    """
    declared_keys = {(one.kind.value, one.namespace, one.name) for one in declared}
    return [
        one
        for entry in sorted(KINDS.values(), key=lambda entry: entry.order, reverse=True)
        for namespace in sorted({one.namespace for one in declared})
        for one in _members(api, entry, {"namespace": namespace, "label_selector": text})
        if (entry.kind.value, namespace, one.metadata["name"]) not in declared_keys
    ]


def _members(api: Api, entry: KindEntry, where: Mapping[str, str]) -> Iterator[Leftover]:
    for resource in api.pages(entry.path, limit=ALL, params=where):
        yield Leftover(entry, resource)


def prune_each(api: Api, unwanted: Sequence[Leftover]) -> Iterator[Applied]:
    """Delete one object after the other, unless it has changed since it was listed.

    Raises:
        RefusedError, ServerUnreachableError: as for `apply_each`.
    """
    for one in unwanted:
        request = ApiRequest(
            method="DELETE",
            path=path_of(one.entry.path, str(one.metadata["name"])),
            params={"namespace": str(one.metadata["namespace"])},
            headers={"If-Match": f'"{one.metadata["uid"]}:{one.metadata["resourceVersion"]}"'},
        )
        answer = send_or_refusal(api, request)
        if isinstance(answer, RefusedError):
            yield Applied(name=one.name, outcome=Outcome.FAILED, refusal=answer)
        else:
            yield Applied(name=one.name, outcome=Outcome.PRUNED, changes=waits_of(answer))
