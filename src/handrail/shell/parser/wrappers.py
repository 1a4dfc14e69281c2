"""Commands that run other commands: `env`, `timeout`, `xargs`, `find -exec`, `bash -c`, `eval` and their like.

Only what is known of a wrapper is believed. An option that is not in its row, or a word that only a running shell knows
where options can stand, makes the rest unproven.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from handrail.frozen import frozen
from handrail.shell.parser.script import Assignment, Command, Part, Word, make_fixed_word, make_unknown_word

SHELLS = ("bash", "sh", "dash", "ash", "zsh", "ksh", "mksh", "rbash")
RUNS_A_FILE = "runs a script file"
"""The end of a doubt that says no more than that a program of the project runs."""
FOREIGN_SHELLS = ("fish", "csh", "tcsh", "pwsh", "nu", "xonsh")
PRIVILEGED = ("sudo", "doas", "su", "pkexec", "runuser", "sudoedit", "gosu", "su-exec", "run0")

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_BASH_ONLY = re.compile(
    r"\$['\"\[]|\{[^}\s]*(?:,|\.\.)|[<>]\(|&>|\|&|<<<|\(\(|\[\[|;;?&|\b(?:function|select|time|coproc)\b"
)
"""Constructs that other shells parse in another way."""

_SHELL_OPTIONS = ("errexit", "nounset", "pipefail", "noglob", "noclobber", "xtrace", "verbose")


@frozen
class _Row:
    """A wrapper: its options, and how many operands stand before the command."""

    flags: str = ""
    takes: str = ""
    long_flags: tuple[str, ...] = ()
    long_takes: tuple[str, ...] = ()
    operands: int = 0
    assigns: bool = False


_ROWS = {
    "env": _Row("i0v", "uC", ("ignore-environment", "null", "debug"), ("unset", "chdir"), assigns=True),
    "command": _Row("p"),
    "builtin": _Row(),
    "exec": _Row("cl", "a"),
    "nohup": _Row(),
    "nice": _Row("", "n", (), ("adjustment",)),
    "ionice": _Row("t", "cn", ("ignore",), ("class", "classdata")),
    "chrt": _Row("abfiorR", "", operands=1),
    "taskset": _Row("c", "", ("cpu-list",), operands=1),
    "time": _Row("pvaq", "fo", ("portability", "verbose", "append", "quiet"), ("format", "output")),
    "timeout": _Row("v", "ks", ("foreground", "preserve-status", "verbose"), ("kill-after", "signal"), operands=1),
    "stdbuf": _Row("", "ioe", (), ("input", "output", "error")),
    "setsid": _Row("cfw", "", ("ctty", "fork", "wait")),
    "chroot": _Row("", "", ("skip-chdir",), ("groups", "userspec"), operands=1),
    "sudo": _Row(
        "AbEHknPSN", "CDghprRTtUu", ("preserve-env", "non-interactive", "login"), ("user", "group"), assigns=True
    ),
    "doas": _Row("n", "aCu", assigns=True),
    "pkexec": _Row("", "", ("disable-internal-agent", "keep-cwd"), ("user",)),
    "gosu": _Row(operands=1),
    "su-exec": _Row(operands=1),
    "xargs": _Row(
        "0rtpxo",
        "adEILnPs",
        ("null", "no-run-if-empty", "verbose", "interactive", "exit", "open-tty"),
        ("arg-file", "delimiter", "max-args", "max-lines", "max-procs", "max-chars", "replace", "process-slot-var"),
    ),
    "unshare": _Row("fimnpruUCTc", "", ("fork", "mount", "net", "pid", "user", "map-root-user"), ("root", "wd")),
    "nsenter": _Row("amuinpCUTFe", "tSG", ("all", "mount", "net", "pid"), ("target",)),
    "systemd-run": _Row(
        "tPqGdSr", "pEuM", ("user", "scope", "pty", "quiet", "wait", "collect"), ("unit", "property", "slice")
    ),
    "flock": _Row(
        "sxunoFve", "wE", ("shared", "exclusive", "nonblock", "close", "no-fork"), ("timeout", "wait"), operands=1
    ),
    "watch": _Row("bcdegptwx", "n", ("beep", "color", "exec", "no-title", "errexit", "chgexit"), ("interval",)),
    "ssh": _Row("46AaCfGgKkMNnqsTtVvXxYy", "BbcDEeFIiJLlmOopQRSWw", operands=1),
    "busybox": _Row(),
    "toybox": _Row(),
    "caffeinate": _Row("dimsu", "tw"),
}
_OWN_SHELLS = ("script", "su", "runuser", "parallel")
NAMES = frozenset((*_ROWS, *SHELLS, *FOREIGN_SHELLS, *_OWN_SHELLS, "find", "eval", "trap", "source", "."))


class NestedText(NamedTuple):
    """A text that a wrapper runs as a script."""

    text: str


class Unopened(NamedTuple):
    """The reason why a wrapper cannot be opened."""

    why: str


Inner = Command | NestedText | Unopened


class _Doubt(Exception):
    """The wrapper cannot be opened."""


def open_wrapper(simple: Command) -> list[Inner]:
    """List the commands and texts that a wrapper, one of `NAMES`, runs, or reasons why they are not known."""
    try:
        return _open(simple.base or "", simple)
    except _Doubt as doubt:
        return [Unopened(str(doubt))]


def _open(base: str, simple: Command) -> list[Inner]:
    words = simple.words[1:]
    if base in FOREIGN_SHELLS:
        raise _Doubt(f"{base} reads another language")
    if base in SHELLS:
        return _open_shell(base, simple)
    if base in ("source", "."):
        raise _Doubt("a script file is run in this shell")
    if base == "eval":
        return [_join_text(base, words[1:] if words and words[0].fixed == "--" else words)] if words else []
    if base == "trap":
        return _open_trap(words)
    if base == "find":
        return list(_find(simple))
    if base in _OWN_SHELLS:  # judge their scripts, and prove nothing
        texts = [word.fixed or "" for word in words]
        scripts = [NestedText(text) for option, text in pairwise(texts) if re.fullmatch(r"-\w*c|--command", option)]
        inner = [_make_inner_command(simple, base, words)] if base == "parallel" and words else []
        return [*inner, *scripts, Unopened(f"{base} runs commands of its own")]
    if base == "command" and words and re.fullmatch(r"-p?[vV]+", words[0].fixed or ""):
        return []
    row = _ROWS[base]
    at, given = _skip_options(base, row, words)
    rest = words[at:]
    for _ in range(row.operands):
        if not rest:
            return []
        if rest[0].splits:
            raise _Doubt(f"an operand of {base} is computed")
        rest = rest[1:]
    assignments: list[Assignment] = []
    while row.assigns and rest and (match := _ASSIGNMENT.match(rest[0].fixed or _get_leading_text(rest[0]))):
        assignments.append(Assignment(match[1], (_get_value(rest[0], match),)))
        rest = rest[1:]
    if row.assigns and rest and "=" in (rest[0].fixed or _get_leading_text(rest[0])):
        raise _Doubt(f"{base} sets a variable whose name is odd")
    if base == "flock" and rest and rest[0].fixed in ("-c", "--command"):
        return [_join_text(base, rest[1:2])]
    if base in ("watch", "ssh") and not (base == "watch" and ("x" in given or "exec" in given)):
        return [_join_text(base, rest)] if rest else []
    if base == "xargs":
        rest = _append_input(rest, given)
    if not rest:
        return []
    return [_make_inner_command(simple, base, tuple(rest), tuple(assignments))]


def _make_inner_command(
    simple: Command, base: str, words: tuple[Word, ...], assignments: tuple[Assignment, ...] = ()
) -> Command:
    """The inner command; it has the input of the wrapper; redirected output stays with the wrapper."""
    feeds = tuple(redirection for redirection in simple.redirections if redirection.feeds)
    return Command(words, assignments, feeds, simple.where, simple.within, (*simple.via, base))


def _get_leading_text(word: Word) -> str:
    """The fixed text that a word begins with."""
    return word.parts[0].text if word.parts and word.parts[0].kind == "text" else ""


def _get_value(word: Word, match: re.Match[str]) -> Word:
    if word.fixed is not None:
        return make_fixed_word(match[2])
    return Word((Part("text", match[2]), *word.parts[1:]), word.source)


def _skip_options(base: str, row: _Row, words: tuple[Word, ...]) -> tuple[int, dict[str, str]]:
    """Where the options end, and which were given."""
    given: dict[str, str] = {}
    at = 0
    while at < len(words):
        text = words[at].fixed
        if text is None:
            # A word that begins with a plain letter or a quoted value is the command or an operand, never an option.
            if _get_leading_text(words[at])[:1] not in ("", "-") or row.operands:
                break
            raise _Doubt(f"an option of {base} is computed")
        at += 1
        if text == "--":
            break
        if text == "-" and base == "env":
            continue
        if not text.startswith("-") or text == "-":
            at -= 1
            break
        if text.startswith("--"):
            name, sign, value = text[2:].partition("=")
            if name in row.long_takes and not sign:
                value, at = _read_next(base, words, at)
            elif name not in row.long_flags and name not in row.long_takes:
                raise _Doubt(f"unknown option {text} of {base}")
            given[name] = value
            continue
        if base == "nice" and text[1:].lstrip("-").isdigit():
            continue
        for index, letter in enumerate(text[1:], start=2):
            if letter in row.takes:
                value = text[index:]
                if not value:
                    value, at = _read_next(base, words, at)
                given[letter] = value
                break
            if letter not in row.flags:
                raise _Doubt(f"unknown option -{letter} of {base}")
            given[letter] = ""
    return at, given


def _read_next(base: str, words: tuple[Word, ...], at: int) -> tuple[str, int]:
    if at >= len(words):
        raise _Doubt(f"an option of {base} has no value")
    if words[at].splits:
        raise _Doubt(f"an option of {base} is computed")
    return words[at].fixed or "", at + 1


def _append_input(rest: tuple[Word, ...], given: dict[str, str]) -> tuple[Word, ...]:
    """The command of xargs with the words that it appends."""
    if not rest:
        rest = (make_fixed_word("echo"),)
    mark = given.get("I") or given.get("replace")
    if "I" in given or "replace" in given:
        mark = mark or "{}"
        return tuple(make_unknown_word(word.source) if mark in (word.fixed or word.source) else word for word in rest)
    return (*rest, make_unknown_word("(input)"))


def _join_text(base: str, words: tuple[Word, ...]) -> NestedText:
    """Join words to the text of a script."""
    texts = [word.fixed for word in words]
    if any(text is None for text in texts):
        raise _Doubt(f"the script that {base} runs is computed")
    return NestedText(" ".join(text for text in texts if text is not None))


def _open_trap(words: tuple[Word, ...]) -> list[Inner]:
    if words and words[0].fixed == "--":
        words = words[1:]
    if len(words) < 2 or words[0].fixed in ("-", "-l", "-p", ""):
        return []
    return [_join_text("trap", words[:1])]


def _open_shell(base: str, simple: Command) -> list[Inner]:
    words = simple.words[1:]
    script = stdin = False
    at = 0
    while at < len(words):
        text = words[at].fixed
        if text is None:
            raise _Doubt(f"an argument of {base} is computed")
        if text in ("--", "-"):
            at += 1
            break
        if text[:1] not in ("-", "+"):
            break
        at += 1
        if text in ("--norc", "--noprofile", "--login", "--posix", "--verbose"):
            continue
        if text.startswith("--") or not set(text[1:]) <= set("abefhlmnprstuvxcoBCEHPT"):
            raise _Doubt(f"unknown option {text} of {base}")
        script = script or "c" in text[1:]
        stdin = stdin or "s" in text[1:]
        for _ in range(text.count("o")):
            if at >= len(words) or words[at].fixed not in _SHELL_OPTIONS:
                raise _Doubt(f"an option of {base} changes how it reads a script")
            at += 1
    if script:
        if at >= len(words):
            return []
        return _open_shell_script(base, _join_text(base, words[at : at + 1]))
    if at < len(words) and not stdin:
        raise _Doubt(f"{base} {RUNS_A_FILE}")
    fed = [redirection for redirection in simple.redirections if redirection.descriptor in ("", "0")]
    fed = [redirection for redirection in fed if redirection.operator.startswith("<")]
    if not fed or not fed[-1].feeds:
        raise _Doubt(f"{base} reads its script from its input")
    body = fed[-1].target.fixed
    if body is None:
        raise _Doubt(f"the script that {base} runs is computed")
    return _open_shell_script(base, NestedText(body))


def _open_shell_script(base: str, script: NestedText) -> list[Inner]:
    """A script for a shell that may not be bash."""
    if base not in ("bash", "rbash") and (base == "zsh" or _BASH_ONLY.search(script.text)):
        return [script, Unopened(f"{base} may read it in another way than bash")]
    return [script]


def _find(simple: Command) -> list[Inner]:
    """The commands of `-exec` and its like."""
    out: list[Inner] = []
    words = simple.words[1:]
    at = 0
    while at < len(words):
        text = words[at].fixed
        at += 1
        if text is None and not _get_leading_text(words[at - 1]) and words[at - 1].holds[:1] != ("tilde",):
            raise _Doubt("an argument of find is computed")
        if text in ("-files0-from", "-fprint", "-fprintf", "-fls", "-fprint0"):
            out.append(Unopened(f"find with {text}"))
        if text not in ("-exec", "-execdir", "-ok", "-okdir"):
            continue
        start = at
        while at < len(words) and words[at].fixed != ";":
            if words[at].fixed == "+" and words[at - 1].fixed == "{}":
                break
            at += 1
        inner = tuple(make_unknown_word(w.source) if "{}" in (w.fixed or w.source) else w for w in words[start:at])
        if inner:
            out.append(_make_inner_command(simple, "find", inner))
        at += 1
    return out
