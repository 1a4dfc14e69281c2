"""Explain how a command ended: well-known exit codes, signals, and programs that need a terminal.

The command line is parsed roughly, and no explanation is given where that is not enough. Nothing is decided by it.
"""

from __future__ import annotations

import re
import shlex
import signal

_CODES: dict[str, dict[int, str]] = {
    "grep": {1: "no line matched", 2: "grep failed: a bad pattern or an unreadable file"},
    "rg": {1: "no line matched", 2: "rg failed: a bad pattern or an unreadable file"},
    "diff": {1: "the files differ", 2: "diff failed: a file is missing or unreadable"},
    "cmp": {1: "the files differ", 2: "cmp failed: a file is missing or unreadable"},
    "test": {1: "the condition is false", 2: "the condition is malformed"},
    "[": {1: "the condition is false", 2: "the condition is malformed"},
    "[[": {1: "the condition is false", 2: "the condition is malformed"},
    "find": {1: "some of the places could not be searched"},
    "which": {1: "no such command on PATH"},
    "command": {1: "no such command"},
    "pgrep": {1: "no process matched"},
    "pytest": {1: "tests failed", 2: "interrupted", 4: "wrong usage of pytest", 5: "no tests were collected"},
    "curl": {6: "the host name was not resolved", 7: "could not connect", 22: "the server answered with an error"},
    "git": {128: "git could not do it; it says why", 129: "wrong usage of git"},
    "timeout": {124: "the time given to `timeout` was over"},
    "xargs": {123: "some of the commands that xargs ran failed"},
}
_SAME = {"egrep": "grep", "fgrep": "grep", "zgrep": "grep", "ripgrep": "rg", "py.test": "pytest", "gtimeout": "timeout"}

_FULL_SCREEN = {"vi", "vim", "nvim", "view", "nano", "pico", "emacs", "less", "more", "most", "top", "htop", "btop"}
_FULL_SCREEN |= {"watch", "screen", "tmux", "mc", "dialog", "whiptail", "fzf", "tig", "lazygit", "w3m", "lynx"}
_PROMPTS = {"python", "python3", "ipython", "node", "irb", "ghci", "sqlite3", "psql", "mysql", "gdb", "ftp", "bc", "su"}
"""Wait for lines to be typed when they are called without arguments."""

_WRAPPERS = {"env", "exec", "time", "nice", "nohup", "builtin", "stdbuf", "setsid"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_UNSURE = re.compile(r"<<|`|\$\(|\bpipefail\b|\bset\s+-|\b(?:if|for|while|until|case|function|trap)\b|\(\)")


def _split_commands(line: str) -> list[tuple[str, list[str]]] | None:
    """The simple commands, each with the operator before it; None if the line is not simple enough."""
    if len(line) > 10_000 or _UNSURE.search(line):
        return None
    lexer = shlex.shlex(line.replace("\n", " ; "), posix=True, punctuation_chars="();|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands: list[tuple[str, list[str]]] = [("", [])]
    try:
        for token in lexer:
            if token and set(token) <= set("();|&"):
                commands.append((token, []))
            elif commands[-1][1] or not (_ASSIGNMENT.match(token) or token in _WRAPPERS or token in ("{", "}", "!")):
                commands[-1][1].append(token)
    except ValueError:
        return None
    return [(operator, words) for operator, words in commands if words]


def _name(words: list[str]) -> str:
    return words[0].rpartition("/")[2]


def find_interactive_program(line: str) -> str:
    """Return the program in ``line`` that needs a person at a terminal; empty if none is known to."""
    for _, words in _split_commands(line) or ():
        name = _name(words)
        if name in _FULL_SCREEN or (name in _PROMPTS and len(words) == 1):
            return name
    return ""


def explain_exit_code(line: str, code: int) -> str:
    """Explain the exit code of ``line``; empty if there is no explanation."""
    if code == 0:
        return ""
    commands = _split_commands(line) or []
    # After `&&` the code may be that of the command before.
    sure = bool(commands) and not any(operator == "&&" for operator, _ in commands) and "!" not in line.split()
    name = _name(commands[-1][1]) if sure else ""
    text = _CODES.get(_SAME.get(name, name), {}).get(code)
    if text:
        return text
    if code == 127:
        return f"{name}: there is no such command here" if name else "a command was not found"
    if code == 126:
        return f"{name}: found, but it cannot be run" if name else "a command was found, but it cannot be run"
    if 128 < code < 128 + signal.NSIG:
        return f"ended by {name_signal(code - 128)}" if code - 128 in signal.valid_signals() else ""
    return ""


def name_signal(number: int) -> str:
    """Such as SIGTERM."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
