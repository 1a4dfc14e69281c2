"""Explain how a command ended: exit codes, signals, programs that need a terminal, and a network that was not there.

No explanation is given where the code may be that of another command. Nothing is decided by it.
"""

from __future__ import annotations

import re
import signal

from handrail.shell.parser.parse import parse_script
from handrail.shell.parser.script import Command

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

_WRAPPERS = frozenset({"env", "exec", "time", "nice", "nohup", "builtin", "stdbuf", "setsid", "timeout"})
_PIPES = frozenset({"pipeline", "piped"})
_UNSURE = re.compile(r"&&|\bpipefail\b|\bset\s+-|(?:^|\s)!")
"""With these the code may be that of an earlier command, or the opposite of it."""
_LONGEST = 10_000


def find_interactive_program(line: str) -> str:
    """Return the program in ``line`` that needs a person at a terminal; empty if none is known to."""
    for command in parse_script(line).runs if len(line) <= _LONGEST else ():
        is_fed = "piped" in command.within or any(one.reads or one.feeds for one in command.redirections)
        if command.base in _FULL_SCREEN or (command.base in _PROMPTS and len(command.words) == 1 and not is_fed):
            return command.base or ""
    return ""


def explain_exit_code(line: str, code: int) -> str:
    """Explain the exit code of ``line``; empty if there is no explanation."""
    if code == 0:
        return ""
    commands = _list_last_commands(line)
    known = [_CODES.get(_SAME.get(command.base or "", command.base or ""), {}) for command in commands]
    if text := next((codes[code] for codes in known if code in codes), ""):
        return text
    name = next((command.base for command in reversed(commands)), "") or ""
    if code == 127:
        return f"{name}: there is no such command here" if name else "a command was not found"
    if code == 126:
        return f"{name}: found, but it cannot be run" if name else "a command was found, but it cannot be run"
    return f"ended by {name_signal(code - 128)}" if code - 128 in signal.valid_signals() else ""


def _list_last_commands(line: str) -> list[Command]:
    """The command whose exit code is that of a script, and what it runs as a mere wrapper; none if that is not sure."""
    script = None if len(line) > _LONGEST or _UNSURE.search(line) else parse_script(line)
    if script is None or script.error or script.functions or not script.commands:
        return []
    last = script.commands[-1]
    if not _PIPES.issuperset(last.within):
        return []
    return [last, *(one for one in last.walk() if one.via and _WRAPPERS.issuperset(one.via))]


def name_signal(number: int) -> str:
    """Such as SIGTERM."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


_WITH_HOST = re.compile(
    r"(?:Could not resolve (?:host|hostname|proxy):?|getaddrinfo (?:ENOTFOUND|EAI_AGAIN)|dial tcp:? lookup"
    r"|unable to resolve host(?: address)?|Failed to (?:resolve|connect to)|connect to host|UnknownHostException:)"
    r" [\"'`\u2018]?([A-Za-z0-9][\w.-]*\w)"
)
_WITHOUT_HOST = re.compile(
    r"Temporary failure in name resolution|Name or service not known|Network is unreachable|nodename nor servname"
    r"|failed to lookup address information|EAI_AGAIN|ENETUNREACH"
)
_OWN = re.compile(r"localhost|127\..*|::1|0\.0\.0\.0")


def find_unreachable(output: str) -> str | None:
    """The host that a command could not reach; empty if it is not known which, None if that is not why it failed."""
    hosts: list[str] = _WITH_HOST.findall(output)
    outside = [host for host in hosts if not _OWN.fullmatch(host)]
    if outside:
        return outside[0]
    return "" if not hosts and _WITHOUT_HOST.search(output) else None
