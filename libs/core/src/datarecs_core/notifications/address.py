"""Mail addresses: which are accepted, when two belong to one person, which may receive mail.

A separate module because rules are checked with it at write time, runs at evaluation time, and both
must agree.
"""

import re
import unicodedata
from collections.abc import Collection

MAX_LENGTH = 254
MAX_LOCAL = 64

_ATOM = re.compile(r"[^\s()<>\[\]:;@\\,\".]+")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def address_fault(address: str) -> str | None:
    """The fault of the address, or None.

    Accepts `local@domain` with a dotted local part (letters of any script) and a domain name, no
    display name, comment, quoting or address literal: nothing that a header or an SMTP line could
    interpret differently.
    """
    if len(address) > MAX_LENGTH:
        return f"{len(address)} characters; an address has at most {MAX_LENGTH}"
    if any(unicodedata.category(letter)[0] in {"C", "Z"} for letter in address):
        return "an address holds no space, line break or control character"
    local, separator, domain = address.rpartition("@")
    if not separator or not local:
        return "write name@domain"
    if len(local) > MAX_LOCAL or not all(map(_ATOM.fullmatch, local.split("."))):
        return "the part before @ has at most 64 characters, dots between words, no quoting"
    if ascii_domain(domain) is None:
        return "the part after @ is a domain name"
    return None


def ascii_domain(domain: str) -> str | None:
    """The domain as lower-case A-labels, or None when it is no host name of two or more labels.

    `localhost`-style single labels are refused, names like `demo.localhost` are fine.
    """
    try:
        name = domain.encode("idna").decode("ascii").lower()
    except UnicodeError:
        return None
    labels = name.split(".")
    known = len(labels) > 1 and all(map(_LABEL.fullmatch, labels)) and not labels[-1].isdigit()
    return name if known else None


def recipient_key(address: str) -> str:
    """What makes two spellings the same person: trimmed, domain to A-label, all lower case.

    Plus tags and dots stay different people. The address must be free of faults.
    """
    local, _, domain = address.strip().rpartition("@")
    return f"{local}@{ascii_domain(domain) or domain}".lower()


def wire_address(address: str) -> str:
    """As SMTP and headers carry it: the domain as A-labels, the local part as it was written."""
    local, _, domain = address.rpartition("@")
    return f"{local}@{ascii_domain(domain) or domain}"


def is_sendable(key: str, domains: Collection[str]) -> bool:
    """Whether the recipient's domain is on the tenant's list, itself and not a name below it."""
    return key.rpartition("@")[2] in domains
