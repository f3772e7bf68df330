"""YAML text to nodes with marks: bounded before and while it is parsed, never an object built.

Reads ruamel's events and not its objects, since positions, source text and every limit are needed
on the way: a hostile document ends at its limit and not when memory does.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError, YAMLStreamError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from datarecs_core.errors.faults import visible
from datarecs_core.errors.spec import SpecCode
from datarecs_specs.nodes import (
    START,
    Document,
    Entry,
    Form,
    ListNode,
    MapNode,
    Mark,
    Node,
    Scalar,
    TextFault,
    form_of,
)
from datarecs_specs.yaml_faults import IN_QUOTES, syntax_fault

MAX_BYTES = 256 * 1024
MAX_DEPTH = 50
MAX_ALIASES = 100
MAX_NODES = 10_000
"""Of one document, each alias counted as often as it is written."""
MAX_DOCUMENTS = 100

_MERGE = "<<"


class _RefusedError(Exception):
    """Ends the reading of a file: a syntax error or a limit; the rest cannot be read."""

    def __init__(self, fault: TextFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def read_yaml(data: bytes) -> tuple[Document, ...]:
    """Every document of the text; at least one. Reading stops at the first syntax fault or limit.

    The documents before it are still returned. Linear in the text: 6 kB of `[` end in well
    under 100 ms.
    """
    documents: list[Document] = []
    try:
        text = _decoded(data)
        _scan(text)
        for document in _documents(text):
            documents.append(document)
            if len(documents) > MAX_DOCUMENTS:
                message = f"more than {MAX_DOCUMENTS} documents"
                hint = "write them into several files; `apply -f` takes a folder"
                _refuse(SpecCode.UNSAFE_YAML, START, message, hint)
    except _RefusedError as refused:
        documents = documents[:MAX_DOCUMENTS]
        documents.append(Document(number=len(documents), node=None, faults=(refused.fault,)))
    return tuple(documents) or (Document(number=0, node=None, faults=()),)


def _refuse(code: SpecCode, mark: Mark, message: str, hint: str = "") -> NoReturn:
    raise _RefusedError(TextFault(code=code, mark=mark, message=message, hint=hint))


def _decoded(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        _refuse(
            SpecCode.UNSAFE_YAML,
            START,
            f"the file has more than {MAX_BYTES // 1024} KiB, the most for declarations",
            "split the file, or name a file of declarations if this one has data",
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        _refuse(SpecCode.YAML_SYNTAX, START, "a byte order mark", "save the file as plain UTF-8")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        column = error.start - (before.rfind(b"\n") + 1) + 1
        mark = Mark(before.count(b"\n") + 1, column)
        _refuse(SpecCode.YAML_SYNTAX, mark, "bytes that are not UTF-8", "save the file as UTF-8")


_OPENERS = re.compile(r"[\[{\]}]")


def _scan(text: str) -> None:
    """Refuse lines that open more than 50 brackets net.

    ruamel looks up to 1,024 characters ahead within a line for each open bracket, which
    makes a row of them slow; deeper nesting over several lines is cheap and ends in `_Tree`.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        open_now = 0
        for bracket in _OPENERS.finditer(line):
            open_now = open_now + 1 if bracket[0] in "[{" else max(0, open_now - 1)
            if open_now > MAX_DEPTH:
                mark = Mark(number, bracket.start() + 1)
                _refuse(SpecCode.UNSAFE_YAML, mark, f"more than {MAX_DEPTH} levels of nesting")


def _documents(text: str) -> Iterator[Document]:
    tree: _Tree | None = None
    number = 0
    for event in _events(text):
        if isinstance(event, DocumentStartEvent):
            tree = _Tree()
        elif tree is not None and isinstance(event, NodeEvent | SequenceEndEvent | MappingEndEvent):
            tree.take(event)
            if tree.root is not None:
                yield Document(number=number, node=tree.root, faults=tuple(tree.faults))
                number, tree = number + 1, None


def _events(text: str) -> Iterator[Event]:
    """Ruamel's events; its errors become refusals that do not repeat the text."""
    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as error:
        raise _RefusedError(syntax_fault(text, error)) from error
    except (YAMLStreamError, YAMLError) as error:
        _refuse(SpecCode.YAML_SYNTAX, _stream_mark(text, error), "a character YAML does not allow")


def _stream_mark(text: str, error: Exception) -> Mark:
    position = getattr(error, "position", 0)
    before = text[: position if isinstance(position, int) else 0]
    return Mark(before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


@dataclass(slots=True)
class _Open:
    """An open collection: its content so far."""

    is_map: bool
    mark: Mark
    anchor: str | None
    children: list[tuple[Node, int]] = field(default_factory=list)
    """Finished nodes with their expanded size; in a mapping keys and values alternate."""


@dataclass(slots=True)
class _Tree:
    """One document while its events arrive."""

    faults: list[TextFault] = field(default_factory=list)
    root: Node | None = None
    _open: list[_Open] = field(default_factory=list)
    _anchors: dict[str, tuple[Node, int]] = field(default_factory=dict)
    _aliases: int = 0
    _nodes: int = 0

    def take(self, event: Event) -> None:
        match event:
            case AliasEvent():
                self._alias(event)
            case ScalarEvent():
                self._refuse_tag(event)
                self._finish(_scalar(event), 1, event.anchor, _mark(event))
            case CollectionStartEvent():
                self._refuse_tag(event)
                is_map = isinstance(event, MappingStartEvent)
                self._open.append(_Open(is_map=is_map, mark=_mark(event), anchor=event.anchor))
                if len(self._open) > MAX_DEPTH:
                    message = f"more than {MAX_DEPTH} levels of nesting"
                    _refuse(SpecCode.UNSAFE_YAML, _mark(event), message)
            case _:
                done = self._open.pop()
                size = 1 + sum(size for _, size in done.children)
                self._finish(self._collection(done), size, done.anchor, done.mark)

    def _finish(self, node: Node, size: int, anchor: str | None, mark: Mark) -> None:
        self._count(1 if isinstance(node, Scalar) else 0, mark)
        if anchor:
            self._anchors[anchor] = (node, size)
        self._put(node, size)

    def _put(self, node: Node, size: int) -> None:
        if self._open:
            self._open[-1].children.append((node, size))
        else:
            self.root = node

    def _count(self, nodes: int, mark: Mark) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            _refuse(SpecCode.UNSAFE_YAML, mark, f"more than {MAX_NODES} values once aliases expand")

    def _alias(self, event: AliasEvent) -> None:
        self._aliases += 1
        mark = _mark(event)
        if self._aliases > MAX_ALIASES:
            _refuse(SpecCode.UNSAFE_YAML, mark, f"more than {MAX_ALIASES} aliases")
        if event.anchor not in self._anchors:
            inside = any(one.anchor == event.anchor for one in self._open)
            if inside:
                _refuse(SpecCode.UNSAFE_YAML, mark, "an alias inside its own anchor")
            message = "a value that begins with `*` is an alias, and no anchor above has its name"
            _refuse(SpecCode.YAML_SYNTAX, mark, message, IN_QUOTES)
        node, size = self._anchors[event.anchor]
        self._count(size, mark)
        self._put(node, size)

    def _refuse_tag(self, event: ScalarEvent | CollectionStartEvent) -> None:
        if event.tag is not None:
            hint = "write the value without a tag; a declaration builds no object"
            _refuse(SpecCode.UNSAFE_YAML, _mark(event), "a tag", hint)

    def _collection(self, done: _Open) -> Node:
        nodes = [node for node, _ in done.children]
        if not done.is_map:
            self._count(1, done.mark)
            return ListNode(items=tuple(nodes), mark=done.mark)
        self._count(1, done.mark)
        return MapNode(
            entries=self._entries(list(zip(nodes[::2], nodes[1::2], strict=True)), done.mark),
            mark=done.mark,
        )

    def _entries(self, pairs: list[tuple[Node, Node]], mark: Mark) -> tuple[Entry, ...]:
        entries: dict[str, Entry] = {}
        merged: list[Entry] = []
        for key, value in pairs:
            place = key.mark or mark
            if not isinstance(key, Scalar):
                self._fault(SpecCode.WRONG_TYPE, place, "a key that is a list or a mapping")
            elif key.text == _MERGE and key.bare:
                merged += self._merged(value, place)
            elif key.text in entries:
                self._fault(SpecCode.DUPLICATE_KEY, place, f"the key '{visible(key.text)}' again")
            else:
                entries[key.text] = Entry(key=key.text, key_mark=place, value=value)
        for entry in merged:
            entries.setdefault(entry.key, entry)
        return tuple(entries.values())

    def _merged(self, value: Node, mark: Mark) -> list[Entry]:
        """`<<: *anchor`, or a list of such: adds their keys; keys of the mapping win."""
        parts = value.items if isinstance(value, ListNode) else (value,)
        maps = [part for part in parts if isinstance(part, MapNode)]
        if len(maps) < len(parts):
            self._fault(SpecCode.WRONG_TYPE, mark, "`<<` takes a mapping or a list of mappings")
        return [entry for part in maps for entry in part.entries]

    def _fault(self, code: SpecCode, mark: Mark, message: str) -> None:
        self.faults.append(TextFault(code=code, mark=mark, message=message))


def _mark(event: Event) -> Mark:
    return Mark(event.start_mark.line + 1, event.start_mark.column + 1)


def _scalar(event: ScalarEvent) -> Scalar:
    bare = not event.style
    return Scalar(
        text=event.value,
        form=form_of(event.value) if bare else Form.TEXT,
        mark=_mark(event),
        bare=bare,
    )
