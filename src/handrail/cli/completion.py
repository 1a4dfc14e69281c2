"""`handrail completion`: print a completion script for bash, zsh or fish, made from the parsers of the commands."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from importlib import import_module
from typing import Literal, NamedTuple

from handrail.cli import COMMANDS
from handrail.cli.common import CommandParser, list_values
from handrail.cli.output import write

_ABOUT = """\
Print a script that completes commands, options and their values in your shell. It is made from the options of this
version; print it again after an update."""

_EXAMPLES = """\
examples:
  source <(handrail completion bash)                                    in ~/.bashrc
  source <(handrail completion zsh)                                     in ~/.zshrc, after compinit
  handrail completion fish > ~/.config/fish/completions/handrail.fish

exit codes: 0 done, 2 wrong usage"""

SHELLS = ("bash", "zsh", "fish")
Takes = Literal["nothing", "values", "directory", "file", "text"]


class CompletedOption(NamedTuple):
    """An option or a positional argument, as a shell completes it."""

    names: tuple[str, ...]
    about: str
    takes: Takes
    values: tuple[str, ...] = ()


class CompletedCommand(NamedTuple):
    """A command and its options."""

    name: str
    about: str
    options: tuple[CompletedOption, ...]

    @property
    def positions(self) -> tuple[str, ...]:
        """The possible values of its positional arguments."""
        return tuple(value for option in self.options if not option.names for value in option.values)


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("completion", _ABOUT, _EXAMPLES)
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    return parser


def run(options: argparse.Namespace) -> int:
    commands = describe_commands()
    scripts = {"bash": write_bash, "zsh": write_zsh, "fish": write_fish}
    write(scripts[options.shell](commands))
    return 0


def describe_commands() -> list[CompletedCommand]:
    """Describe all commands and their options, from their parsers."""
    described: dict[str, CompletedCommand] = {}
    for name, (module, about) in COMMANDS.items():
        own: argparse.ArgumentParser = import_module(f"handrail.cli.{module}").parser()
        options = tuple(map(_describe_option, own._actions))
        first, _, second = name.partition(" ")
        if second:  # `log show`: offer `show` and its options after `log`
            above = described[first]
            seen = {option.names for option in above.options if option.names}
            new = tuple(option for option in options if option.names and option.names not in seen)
            word = CompletedOption((), about, "values", (second,))
            described[first] = above._replace(options=(*above.options, word, *new))
        else:
            described[name] = CompletedCommand(name, about, options)
    return list(described.values())


def _describe_option(action: argparse.Action) -> CompletedOption:
    about = " ".join((action.help or "").split())
    values = tuple(str(value) for value in action.choices or list_values(action))
    takes: Takes = "text"
    if action.nargs == 0:
        takes = "nothing"
    elif values:
        takes = "values"
    elif action.metavar in ("DIR", "ROOT"):
        takes = "directory"
    elif action.metavar in ("FILE", "PATH"):
        takes = "file"
    return CompletedOption(tuple(action.option_strings), about, takes, values)


def _join(words: Sequence[str]) -> str:
    return shlex.quote(" ".join(words))


def write_bash(commands: Sequence[CompletedCommand]) -> str:
    rows = ["# Completion of handrail for bash, made by `handrail completion bash`.", "_handrail() {"]
    rows += ['  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"', "  COMPREPLY=()"]
    rows += ['  if [ "$COMP_CWORD" -eq 1 ]; then']
    names = [command.name for command in commands]
    rows += [f'    COMPREPLY=($(compgen -W {_join([*names, "--help", "--version"])} -- "$word"))', "    return", "  fi"]
    rows += ['  case "${COMP_WORDS[1]} $before" in']
    for command in commands:
        for option in command.options:
            if option.names and option.takes != "nothing":
                patterns = "|".join(shlex.quote(f"{command.name} {name}") for name in option.names)
                rows.append(f"    {patterns}) {_list_bash_values(option)}; return ;;")
    rows += ["  esac", '  case "${COMP_WORDS[1]}" in']
    for command in commands:
        words = [name for option in command.options for name in option.names]
        rows.append(
            f'    {command.name}) COMPREPLY=($(compgen -W {_join([*words, *command.positions])} -- "$word")) ;;'
        )
    rows += ["  esac", "}", "complete -o bashdefault -o default -F _handrail handrail"]
    return "\n".join(rows) + "\n"


def _list_bash_values(option: CompletedOption) -> str:
    if option.takes == "values":
        return f'COMPREPLY=($(compgen -W {_join(option.values)} -- "$word"))'
    if option.takes in ("directory", "file"):
        flag = "-d" if option.takes == "directory" else "-f"
        return f'COMPREPLY=($(compgen {flag} -- "$word"))'
    return ":"


def write_zsh(commands: Sequence[CompletedCommand]) -> str:
    rows = [
        "#compdef handrail",
        "# Completion of handrail for zsh, made by `handrail completion zsh`.",
        "_handrail() {",
    ]
    rows += ["  local -a commands", "  commands=("]
    rows += [f"    {shlex.quote(f'{command.name}:{_quote_zsh(command.about)}')}" for command in commands]
    rows += ["  )", "  if (( CURRENT == 2 )); then", "    _describe command commands", "    return", "  fi"]
    rows += ["  local chosen=$words[2]", "  shift words", "  (( CURRENT-- ))", "  case $chosen in"]
    for command in commands:
        rows.append(f"    {command.name})")
        specs = [spec for option in command.options for spec in _list_zsh_specs(option)]
        rows.append("      _arguments -S " + " ".join(map(shlex.quote, specs)) + " ;;")
    rows += [
        "  esac",
        "}",
        'if [ "$funcstack[1]" = _handrail ]; then _handrail "$@"; else compdef _handrail handrail; fi',
    ]
    return "\n".join(rows) + "\n"


def _quote_zsh(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def _list_zsh_specs(option: CompletedOption) -> list[str]:
    what = {
        "nothing": "",
        "values": f": :({' '.join(option.values)})",
        "directory": ": :_files -/",
        "file": ": :_files",
        "text": ": :",
    }[option.takes]
    if not option.names:
        return [f"*{what}" if option.takes != "text" else "*: :_files"]
    return [f"*{name}[{_quote_zsh(option.about)}]{what}" for name in option.names]


def write_fish(commands: Sequence[CompletedCommand]) -> str:
    rows = ["# Completion of handrail for fish, made by `handrail completion fish`."]
    for command in commands:
        about = shlex.quote(command.about)
        rows.append(f"complete -c handrail -n __fish_use_subcommand -f -a {command.name} -d {about}")
        here = shlex.quote(f"__fish_seen_subcommand_from {command.name}")
        rows += [f"complete -c handrail -n {here} {_format_fish_option(option)}" for option in command.options]
    return "\n".join(rows) + "\n"


def _format_fish_option(option: CompletedOption) -> str:
    words = [("-l " if name.startswith("--") else "-s ") + name.lstrip("-") for name in option.names]
    values = f"-a {_join(option.values)}"
    takes = {
        "nothing": "",
        "values": f"-x {values}" if option.names else f"-f {values}",
        "directory": "-x -a '(__fish_complete_directories)'" if option.names else "",
        "file": "-r -F" if option.names else "",
        "text": "-x" if option.names else "",
    }[option.takes]
    return " ".join(part for part in (*words, takes, f"-d {_quote_fish(option.about)}") if part)


def _quote_fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
