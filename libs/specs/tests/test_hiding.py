"""Lines of a declaration are shown without the secrets that somebody wrote into it."""

import pytest

from datarecs_specs.documents import decode_yaml
from datarecs_specs.findings import as_lines
from datarecs_specs.hiding import without_secrets

HEAD = """\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {name: events}
spec:
  type: kafka
"""
CONFIG = "  config: {brokers: [b1.example.com:9093], user: landing}\n"
SECRET = "Ev3nts-hunter2"


def shown(text: str) -> str:
    findings = [one for decoded in decode_yaml(text.encode()) for one in decoded.findings]
    assert findings
    return "\n".join(as_lines(findings, file="c.yaml", text=text))


@pytest.mark.parametrize(
    "auth",
    [
        f"auth: {{password: {SECRET}}}",
        f"auth: {{password: '{SECRET}:'}}",
        f'auth: {{password: "#{SECRET}"}}',
        f"auth: {{password: env:A, pasword: {SECRET}}}",
        f"auth: {{pasword: {SECRET}, password: env:A}}",
        f"auth: {{password: {SECRET}, password: env:A}}",
        f"auth: {{password: {SECRET}",
        f"auth: {{password: ' #{SECRET}'}}",
        f"auth: {{password: '{SECRET}: x', y: 1}}",
        f'"auth":{{"password":"{SECRET}"}}',
        f"auth: {SECRET}",
        f"auth: [{SECRET}]",
        f"auth:\n    password: {SECRET}\n    passwort: {SECRET}",
        f"auth: {{password: env:A}}\n  token: {SECRET}",
        f"auth: {{password: {SECRET}}}, x: 1",
    ],
)
def test_no_excerpt_shows_a_secret(auth: str) -> None:
    assert SECRET not in shown(f"{HEAD}{CONFIG}  {auth}\n")


def test_a_fault_of_another_field_does_not_show_the_secret_of_its_line() -> None:
    line = f"  config: {{brokers: [b1], user: landing, password: {SECRET}}}\n"
    text = shown(HEAD + line)
    assert SECRET not in text
    assert "6 |   config: {brokers: [b1], user: landing, password: <hidden>" in text


def test_the_caret_of_a_hidden_value_is_at_its_place() -> None:
    lines = shown(f"{HEAD}{CONFIG}  auth: {{password: {SECRET}}}\n").splitlines()
    excerpt = [line for line in lines if line.startswith(("  7 |", "    |"))]
    assert excerpt[-2:] == ["  7 |   auth: {password: <hidden>", "    |                    ^"]


def test_references_and_comments_are_shown() -> None:
    text = "auth: {password: env:A, token: 'file:/b'}  # of the lake\ncolumn: token"
    assert without_secrets(text, [(1, 1), (1, 18)]) == text.splitlines()
