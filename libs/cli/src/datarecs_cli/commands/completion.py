"""`datarecs completion`: the words that a shell offers on Tab.

The script calls this command for the words that may follow, so it fits every release. Names that
are stored on a server are not offered: Tab makes no network request.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import HELP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


SCRIPTS = {
    Shell.BASH: """\
_datarecs() {
    local current="${COMP_WORDS[COMP_CWORD]}" words
    words="$(datarecs completion bash --words -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)"
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$current"))
}
complete -o filenames -F _datarecs datarecs
""",
    Shell.ZSH: """\
#compdef datarecs
_datarecs() {
    local -a found
    found=(${(f)"$(datarecs completion zsh --words -- ${words[2,CURRENT-1]} 2>/dev/null)"})
    compadd -a found || _files
}
compdef _datarecs datarecs
""",
    Shell.FISH: """\
function __datarecs_words
    set -l line (commandline -opc)
    datarecs completion fish --words -- $line[2..-1] 2>/dev/null
end
complete -c datarecs -a '(__datarecs_words)'
""",
    Shell.POWERSHELL: """\
Register-ArgumentCompleter -Native -CommandName datarecs -ScriptBlock {
    param($word, $line, $position)
    $before = @($line.CommandElements | Select-Object -Skip 1 | ForEach-Object { "$_" })
    if ($word) { $before = @($before | Select-Object -SkipLast 1) }
    datarecs completion powershell --words -- @before 2>$null |
        Where-Object { $_ -like "$word*" } |
        ForEach-Object { [System.Management.Automation.CompletionResult]::new($_) }
}
""",
}


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="name of the shell")],
    before: Annotated[
        list[str] | None, typer.Argument(metavar="WORD", help="words typed so far, from the script")
    ] = None,
    *,
    words: Annotated[bool, typer.Option("--words", hidden=True)] = False,
) -> ExitCode:
    """Print the completion script of a shell; source it, or save it where the shell loads it."""
    if not words:
        print(SCRIPTS[shell], end="")
        return ExitCode.DONE
    for word in next_words(before or ()):
        print(word)
    return ExitCode.DONE


def next_words(before: "Sequence[str]") -> "Iterator[str]":
    """Commands first, then sub-commands and flags of the one that was typed."""
    from datarecs_cli.main import COMMANDS, program_of

    names = [word for word in before if not word.startswith("-")]
    by_name = {command.name: command for command in COMMANDS}
    if not names:
        yield from by_name
    elif names[0] in by_name:
        command = program_of(by_name[names[0]])
        for name in names[1:]:
            command = getattr(command, "commands", {}).get(name, command)
        yield from getattr(command, "commands", {})
        for parameter in command.params:
            if not getattr(parameter, "hidden", False):
                yield from (one for one in parameter.opts if one.startswith("--"))
    for left, _ in HELP:
        yield from (one for one in left.replace(",", " ").split() if one.startswith("--"))
