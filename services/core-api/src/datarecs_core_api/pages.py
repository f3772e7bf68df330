"""The pages `/` and `/docs`: plain HTML, generated from the published OpenAPI document.

No script and no other file, so that the strictest policy applies and no request leaves the host.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from html import escape
from typing import Any

Json = Mapping[str, Any]
STYLE = """\
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
code,pre{font-family:ui-monospace,monospace;font-size:.9em}
pre{overflow-x:auto;padding:.6rem;border:1px solid #8888}
summary{cursor:pointer;padding:.3rem 0}
.method{display:inline-block;min-width:4.5em;font-weight:bold}
table{border-collapse:collapse}
th,td{text-align:left;vertical-align:top;padding:.2rem .8rem .2rem 0;border-top:1px solid #8884}
"""
POLICY = (
    "default-src 'none'; "
    f"style-src 'sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_METHODS = ("get", "post", "put", "patch", "delete")
_OPEN = "none; no API key is needed"


def start_page() -> str:
    """What this is, where its documentation is, how to sign in."""
    return _page(
        "datarecs",
        """\
<h1>datarecs</h1>
<p>This server compares data of several sources and reports where they differ.
It is the API; programs and the command line <code>datarecs</code> use it.</p>
<h2>Documentation</h2>
<ul>
<li><a href="/docs">All operations of the API</a>, with parameters and an example of each</li>
<li><a href="/openapi.json">The OpenAPI document</a>, for generated clients</li>
<li><a href="/readyz">Whether the server is ready</a></li>
</ul>
<h2>Sign in</h2>
<p>Every path below <code>/api/v1</code> needs an API key in the header
<code>Authorization: Bearer KEY</code>. An administrator makes one with
<code>datarecs key create --name NAME</code>. Store it once, from a file:</p>
<pre>datarecs login --server https://THIS-SERVER &lt; key.txt
datarecs get jobs</pre>
""",
    )


def documentation_page(document: Json) -> str:
    """Every operation, by tag; details open on a click, without a script."""
    parts = [
        "<h1>API of datarecs</h1>",
        f"<p>{escape(str(document['info'].get('description', '')))}</p>",
        '<p><a href="/">Start page</a> · <a href="/openapi.json">OpenAPI document</a></p>',
    ]
    for tag in document.get("tags", ()):
        name = str(tag["name"])
        parts.append(f'<h2 id="{escape(name)}">{escape(name)}</h2>')
        parts.append(f"<p>{escape(str(tag.get('description', '')))}</p>")
        parts += [_operation(document, *one) for one in operations_of(document, name)]
    return _page("API of datarecs", "\n".join(parts))


def operations_of(document: Json, tag: str) -> Iterator[tuple[str, str, Json]]:
    """Path, method and operation, in the order of the document."""
    for path, item in document["paths"].items():
        for method in _METHODS:
            operation = item.get(method)
            if operation is not None and tag in operation.get("tags", ()):
                yield path, method, operation


def _operation(document: Json, path: str, method: str, operation: Json) -> str:
    permission = operation.get("x-datarecs-permission", _OPEN)
    parameters = [_resolved(document, one) for one in operation.get("parameters", ())]
    answers = "".join(
        f"<tr><th>{escape(status)}</th><td>"
        f"{escape(str(_resolved(document, answer).get('description', '')))}</td></tr>"
        for status, answer in operation["responses"].items()
    )
    return f"""\
<details id="{escape(str(operation["operationId"]))}">
<summary><span class="method">{method.upper()}</span> <code>{escape(path)}</code>
 {escape(_first_sentence(operation))}</summary>
<p>{escape(str(operation.get("description", "")))}</p>
<p>Permission: <code>{escape(str(permission))}</code></p>
{_parameters(parameters)}
<pre>{escape(_example(path, method, operation))}</pre>
<table>{answers}</table>
</details>"""


def _parameters(parameters: list[Json]) -> str:
    if not parameters:
        return ""
    rows = "".join(
        f"<tr><th><code>{escape(str(one['name']))}</code></th><td>{escape(str(one['in']))}"
        f"{', required' if one.get('required') else ''}</td>"
        f"<td>{escape(str(one.get('description', '')))}</td></tr>"
        for one in parameters
    )
    return f"<table>{rows}</table>"


def _example(path: str, method: str, operation: Json) -> str:
    """The call with curl; the key comes from a file, so that it is not in the shell history."""
    words = ["curl", "--fail-with-body", "-X", method.upper()]
    if "x-datarecs-permission" in operation:
        words += ["-H", "@key-header.txt"]
    if "requestBody" in operation:
        words += ["-H", "'Content-Type: application/json'", "--data", "@body.json"]
    return " ".join([*words, f"https://THIS-SERVER{path}"])


def _resolved(document: Json, part: Json) -> Json:
    reference = part.get("$ref")
    if not isinstance(reference, str):
        return part
    target: Any = document
    for name in reference.removeprefix("#/").split("/"):
        target = target[name]
    resolved: Json = target
    return resolved


def _first_sentence(operation: Json) -> str:
    text = str(operation.get("description") or operation.get("summary", ""))
    return text.split(". ", maxsplit=1)[0].split("\n", maxsplit=1)[0].rstrip(".")


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )
