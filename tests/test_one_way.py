"""A call goes one way: on the stack of calls, from an interface to a file or a process, no module appears twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import TIMEOUT

_RECORD = """
import json, os, sys, threading
from handrail.cli import main

STARTS = {("subprocess", "Popen.__init__"), ("handrail.shell.sandbox.launcher_client", "Launcher.start")}
routes = set()

def note(frame, event, argument):
    module = frame.f_globals.get("__name__", "")
    if event != "call" or (module != "handrail.system_calls" and (module, frame.f_code.co_qualname) not in STARTS):
        return
    names = []
    while frame:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("handrail") and name not in names[-1:]:
            names.append(name)
        frame = frame.f_back
    routes.add(tuple(reversed(names)))

threading.setprofile(note)
sys.setprofile(note)
try:
    main(sys.argv[2:])
finally:
    sys.setprofile(None)
    threading.setprofile(None)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(sorted(routes), file)
"""
_CALLS = (
    ("Read", {"file_path": "a.txt"}),
    ("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "2"}),
    ("Bash", {"command": "echo hello"}),
)


Message = dict[str, object]


def record_routes(tmp_path: Path, command: str, messages: list[Message]) -> list[list[str]]:
    """The modules on the stack, each time that a file is opened or a process started while messages are handled."""
    work, routes = tmp_path / "work", tmp_path / "routes.json"
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    variables = {**os.environ, "HANDRAIL_STATE": str(tmp_path / "state")}
    words = [sys.executable, "-c", _RECORD, str(routes), command]
    with subprocess.Popen(
        words, cwd=work, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdin and process.stdout
        for message in messages:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            while "id" in message and json.loads(process.stdout.readline()).get("id") != message["id"]:
                pass  # a notification of the server
        process.stdin.close()
        process.wait(TIMEOUT)
    assert (work / "a.txt").read_text(encoding="utf-8") == "one\n2\n"
    recorded: list[list[str]] = json.loads(routes.read_text(encoding="utf-8"))
    return recorded


_BATCH: list[Message] = [{"id": name, "tool": name, "arguments": arguments} for name, arguments in _CALLS]
_CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
_MCP: list[Message] = [
    {"jsonrpc": "2.0", "id": "start", "method": "initialize", "params": _CLIENT},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]
for _name, _arguments in _CALLS:
    _params = {"name": _name, "arguments": _arguments}
    _MCP.append({"jsonrpc": "2.0", "id": _name, "method": "tools/call", "params": _params})


@pytest.mark.parametrize(("command", "messages"), [("batch", _BATCH), ("mcp", _MCP)])
def test_a_call_does_not_return_to_a_module_that_it_left(tmp_path: Path, command: str, messages: list[Message]) -> None:
    routes = record_routes(tmp_path, command, messages)
    passed = {name for route in routes for name in route}
    assert {"handrail.tools.read", "handrail.files.commit", "handrail.shell.command_host"} <= passed
    # The first call may find that it has to open the session, which the server hands to its sessions as a callback.
    calls = [route for route in routes if "handrail.cli.common" not in route]
    assert [route for route in calls if len(set(route)) < len(route)] == []
