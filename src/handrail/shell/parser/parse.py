"""Parse a script once, with everything that it runs: wrappers opened, nested scripts parsed, doubts collected.

`parse_script` serves policy and Bash; nothing is run. `check_syntax` asks bash itself whether a text is valid: a text
that the parser cannot read is unproven, and only one that bash refuses is invalid.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from handrail.programs import find_program
from handrail.shell.parser.assignments import Assignments, find_assignments
from handrail.shell.parser.grammar import Parser
from handrail.shell.parser.lexer import MOST_STEPS, CannotParse, Findings, Here, InvalidSyntax
from handrail.shell.parser.script import Command, Redirection, Script, SyntaxFault
from handrail.shell.parser.wrappers import NAMES, NestedText, Unopened, open_wrapper

MOST_CHARACTERS = 131_072
"""Linux takes no longer text as one argument of a command, and `bash -c` is one."""
MOST_LAYERS = 12
MOST_RUNS = 10_000
_MOST_SECONDS = 30.0
_LINE = re.compile(r"line (\d+): (.*)")

_CHANGES_NAMES = {
    "alias": "an alias changes what a name means",
    "unalias": "an alias changes what a name means",
    "enable": "a built-in command is changed",
}
_STEERS_SHELL = re.compile(
    r"PATH|BASH_ENV|ENV|PS4|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|BASH_FUNC_.*|LD_.*|DYLD_.*|EXECIGNORE|HOME|PWD|VIRTUAL_ENV"
    r"|POSIXLY_CORRECT|BASH_COMPAT|TEXTDOMAIN.*"
)
"""Variables that change which programs run, or how the shell parses."""
STEERING = (
    r"PATH|CDPATH|GLOBIGNORE|BASH_.*|ENV|SHELL.*|LD_.*|DYLD_.*|GIT_.*|SSH_.*|.*PAGER|LESS.*|MAN.*|.*EDITOR|VISUAL"
    r"|BROWSER|.*_OPTIONS|.*OPTS|.*FLAGS|PYTHON.*|NODE_.*|NPM_.*|PERL.*|RUBY.*|JAVA_.*|RIPGREP_.*|GCONV_PATH|LOCPATH"
    r"|.*_COMMAND|.*_PROXY|.*_proxy|TMPDIR|HOME|PWD|OLDPWD|PS[0-4]|PROMPT_.*|.*_HOME|.*_PATH"
)
"""Variables that change the behaviour of programs if they are in the environment already."""
_STEERS = re.compile(f"{_STEERS_SHELL.pattern}|{STEERING}")
_TOO_MANY = "more commands than can be parsed"


def parse_script(text: str) -> Script:
    """Parse a script with every command that it runs."""
    expansion = _Expansion()
    script = expansion.parse(text)
    findings = expansion.findings
    doubts = (
        *script.doubts,
        *findings.doubts,
        *(doubt for one in expansion.assigned for doubt in one.doubts),
        *_find_steering(findings, expansion.assigned),
        *_find_lists(expansion.assigned),
    )
    elsewhere = findings.defaulted.union(*(one.indirect for one in expansion.assigned))
    return replace(script, doubts=tuple(dict.fromkeys(doubts)), elsewhere=frozenset(elsewhere))


def isolate_command(command: Command, source: str, script: Script) -> Script:
    """Make a script of one command of a parsed script, as if it stood there alone. Nothing is parsed again.

    The doubts of the whole script hold for each of its commands.
    """
    alone = replace(command, within=(), via=())
    runs = (alone, *islice(command.walk(), 1, None))
    return Script(source, (alone,), runs, error=script.error, doubts=script.doubts, stopped=script.stopped)


def _parse_text(text: str) -> tuple[Findings, SyntaxFault | None]:
    """Parse the commands that are written in a text, to its end or as far as possible."""
    findings = Findings()
    if len(text) > MOST_CHARACTERS:
        findings.add_doubt("the script is too long to be read")
        findings.stopped = True
        return findings, None
    if "\0" in text:
        return findings, SyntaxFault(text.count("\n", 0, text.index("\0")) + 1, 0, "", "a NUL character")
    reader = Parser(text, findings)
    try:
        reader.parse_commands("", "")
        if reader.pending:
            raise CannotParse("a here-document without its body")
    except CannotParse as stopped:
        findings.add_doubt(str(stopped))
        findings.stopped = True
    except InvalidSyntax as wrong:
        at = min(wrong.at, len(text))
        line = text.count("\n", 0, at) + 1
        start = text.rfind("\n", 0, at) + 1
        return findings, SyntaxFault(line, at - start + 1, text[start:].split("\n", 1)[0][:200], wrong.message)
    return findings, None


def _finish(findings: Findings, via: tuple[str, ...]) -> Iterator[Command]:
    """Turn the drafts into commands."""
    for draft in findings.drafts:
        redirections = []
        for redirect in draft.redirects:
            target = redirect.target.body if isinstance(redirect.target, Here) else redirect.target
            if target is not None:
                redirections.append(Redirection(redirect.operator, target, redirect.descriptor))
        words, assignments = tuple(draft.words), tuple(draft.assignments)
        yield Command(words, assignments, tuple(redirections), draft.where, draft.within, via)


class _Expansion:
    """Opens wrappers and parses nested scripts. Findings of all texts are collected in one place."""

    def __init__(self) -> None:
        self.findings = Findings()
        self.assigned: list[Assignments] = []
        self.runs = 0

    def parse(self, text: str, via: tuple[str, ...] = ()) -> Script:
        """Parse one text and all that its commands run."""
        findings, error = _parse_text(text)
        self.findings.defaulted |= findings.defaulted
        for doubt in findings.doubts:
            self.findings.add_doubt(doubt)
        self.findings.steps += findings.steps
        commands: list[Command] = []
        for written in _finish(findings, via):
            commands.append(self._expand(written))
            if self.runs > MOST_RUNS:
                findings.add_doubt(_TOO_MANY)
                findings.stopped = True
                break
        script = Script(
            text, tuple(commands), functions=tuple(findings.functions), error=error, stopped=findings.stopped
        )
        return _with_nested(replace(script, own_doubts=tuple(findings.doubts)))

    def _expand(self, command: Command) -> Command:
        """Fill in the commands and scripts that a command runs."""
        self.runs += 1
        sets = find_assignments(command)
        self.assigned.append(sets)
        via = (*command.via, command.base or "")
        nested: list[Command | Script] = []
        for inner in open_wrapper(command) if command.base in NAMES else ():
            if isinstance(inner, Unopened):
                nested.append(Script("", doubts=(inner.why,), own_doubts=(inner.why,)))
            elif len(via) > MOST_LAYERS or self.runs > MOST_RUNS or self.findings.steps > MOST_STEPS:
                nested.append(Script("", doubts=(_TOO_MANY,), own_doubts=(_TOO_MANY,), stopped=True))
            elif isinstance(inner, NestedText):
                if inner.text:
                    nested.append(self.parse(inner.text, via))
            else:
                nested.append(self._expand(inner))
        if not nested and not sets.indirect:
            return command
        return replace(command, nested=tuple(nested), indirect_sets=sets.indirect)


def _with_nested(script: Script) -> Script:
    """Collect the runs and doubts of a script from its commands and their nested scripts."""
    runs: list[Command] = []
    doubts = list(script.own_doubts)
    functions = list(script.functions)
    stopped = script.stopped
    waiting: list[Command | Script] = list(reversed(script.commands))
    while waiting:
        item = waiting.pop()
        if isinstance(item, Command):
            runs.append(item)
            doubts.extend(_find_doubts(item))
            waiting.extend(reversed(item.nested))
            continue
        runs.extend(item.runs)
        doubts.extend(item.doubts)
        functions.extend(item.functions)
        stopped = stopped or item.stopped or item.error is not None
        if item.error is not None:
            doubts.append("a script inside of it is not valid")
    doubts.extend(f"the function {name} changes what that name means" for name in functions)
    return replace(
        script, runs=tuple(runs), doubts=tuple(dict.fromkeys(doubts)), functions=tuple(functions), stopped=stopped
    )


def _find_doubts(simple: Command) -> list[str]:
    """Reasons in this one command why more of the script is unproven."""
    out: list[str] = []
    base = simple.base
    if base is None:
        out.append("the name of a command is computed")
    elif base in _CHANGES_NAMES:
        out.append(_CHANGES_NAMES[base])
    elif base == "shopt" and any(word.fixed in (None, "expand_aliases", "extglob") for word in simple.words):
        out.append("shopt changes how the script is read")
    elif base == "hash" and len(simple.words) > 1:
        out.append("hash changes what a name means")
    elif base in ("mapfile", "readarray") and any((word.fixed or "-C").startswith("-C") for word in simple.words[1:]):
        out.append(f"{base} may call a command back")
    return out


def _find_steering(findings: Findings, assignments: list[Assignments]) -> list[str]:
    """Variables that change which programs run, however they are set.

    What else steers programs is judged with the command that sets it; an expansion belongs to no command.
    """
    names = [name for name in sorted(findings.defaulted) if _STEERS.fullmatch(name)]
    names += [name for one in assignments for name in (*one.direct, *one.indirect) if _STEERS_SHELL.fullmatch(name)]
    return [f"{name} changes how commands run" for name in names]


def _find_lists(assignments: list[Assignments]) -> list[str]:
    """Arrays that are declared with a computed value: bash expands it as a list."""
    arrays = {name for one in assignments for name in one.arrays}
    return [f"the value of {name} may be a list that is expanded" for one in assignments for name in one.lists & arrays]


def check_syntax(script: str) -> SyntaxFault | None:
    """Ask bash whether the text is valid (`bash -n`: parsed, never run); None if it is.

    Raises FileNotFoundError without bash, and TimeoutError if bash does not answer in time.
    """
    if "\0" in script:
        return SyntaxFault(script.count("\n", 0, script.index("\0")) + 1, 0, "", "a NUL character")
    bash = find_program("bash")
    if bash is None:
        raise FileNotFoundError("bash")
    try:
        done = subprocess.run(  # noqa: S603
            [bash, "--norc", "--noprofile", "-n"],
            input=script.encode("utf-8", "surrogatepass"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={},
            timeout=_MOST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise TimeoutError("bash -n") from late
    if done.returncode == 0:
        return None
    messages = done.stderr.decode("utf-8", "replace").splitlines()
    match = next((match for row in messages if (match := _LINE.search(row))), None)
    if match is None:
        return SyntaxFault(1, 0, "", messages[0] if messages else "bash does not take it")
    line = int(match[1])
    rows = script.split("\n")
    return SyntaxFault(line, 0, rows[line - 1][:200] if 0 < line <= len(rows) else "", match[2])
