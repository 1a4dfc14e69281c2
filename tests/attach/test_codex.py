"""Codex: its shell is wrapped after Codex has decided, and no command gets more than Codex's own sandbox gives."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handrail.journal.queries import JournalReader
from handrail.journal.store import get_default_path
from tests.attach.conftest import Agent, finish
from tests.attach.test_commands import list_calls, read_tree

Undo = Callable[[], list[str]]
PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** Add File: b.txt\n+b\n*** End Patch\n"


def enclose(agent: Agent, script: str) -> Agent:
    """An agent whose commands run in namespaces of their own, after a script that mounts."""
    start = ["unshare", "--user", "--map-root-user", "--mount", "--net"]
    if subprocess.run([*start, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no process can have namespaces of its own here")
    words = [*start, "bash", "-p", "-c", f'set -e; {script}; exec "$@"', "sandbox"]
    return replace(agent, sandbox=words)


def list_unwrapped(agent: Agent) -> list[str]:
    """Why commands ran without a draft."""
    with JournalReader(get_default_path(str(agent.state))) as reader:
        texts = [row.output or "" for row in reader.iterate_calls()]
    return [text for text in texts if "without a draft" in text]


def test_a_command_is_wrapped_by_its_own_shell_and_undone(codex: Agent, undo: Undo) -> None:
    (codex.project / "a.txt").write_bytes(b"one\n")
    (codex.project / "sub").mkdir()
    command = "echo $0; sed -i s/one/two/ a.txt; cd sub; bash -c 'echo inner; echo [$BASH_ENV]'"
    done = codex.run(command)
    assert (done.returncode, done.stdout.splitlines()[1:], done.stderr) == (0, [b"inner", b"[]"], b"")
    assert read_tree(codex.project) == {"a.txt": b"two\n"}
    undo()
    assert read_tree(codex.project) == {"a.txt": b"one\n"}


def test_the_directory_is_that_of_the_shell(codex: Agent) -> None:
    (codex.project / "sub").mkdir()
    codex.before("Bash", {"command": "pwd"})
    assert finish(codex.start("pwd", cwd=codex.project / "sub")).stdout.decode() == f"{codex.project}/sub\n"


def test_a_shell_that_was_not_wrapped_is_recorded_as_not_undoable(codex: Agent) -> None:
    del codex.environment["BASH_ENV"]
    answer = codex.before("Bash", {"command": "echo x > x.txt"}, "c")
    assert answer == {}
    assert finish(codex.start("echo x > x.txt")).returncode == 0
    codex.hook("PostToolUse", tool_name="Bash", tool_input={"command": "echo x > x.txt"}, tool_use_id="c")
    assert read_tree(codex.project) == {"x.txt": b"x\n"}
    assert list_unwrapped(codex) == ["It ran without a draft: its shell did not start Handrail."]


def test_codex_cannot_ask_so_a_protected_file_is_refused(codex: Agent) -> None:
    (codex.project / ".git" / "hooks").mkdir(parents=True)
    patch = "*** Begin Patch\n*** Add File: .git/hooks/pre-commit\n+x\n*** End Patch\n"
    assert codex.before("apply_patch", {"command": patch})["permissionDecision"] == "deny"


def test_an_approval_of_codex_counts_as_the_persons(codex: Agent) -> None:
    command = "git push origin main"
    assert codex.before("Bash", {"command": command}) == {}
    refused = finish(codex.start(command))
    assert refused.returncode == 126 and b"approval" in refused.stderr
    codex.before("Bash", {"command": command})
    codex.hook("PermissionRequest", tool_name="Bash", tool_input={"command": command})
    assert finish(codex.start(command)).returncode == 128  # git itself: there is no repository


@pytest.mark.parametrize("as_command", [False, True])
def test_a_patch_is_undone(codex: Agent, undo: Undo, as_command: bool) -> None:
    (codex.project / "a.txt").write_bytes(b"one\n")
    tool, text = ("Bash", f"apply_patch <<'EOF'\n{PATCH}EOF\n") if as_command else ("apply_patch", PATCH)
    assert codex.before(tool, {"command": text}, "c") == {}
    (codex.project / "a.txt").write_bytes(b"two\n")
    (codex.project / "b.txt").write_bytes(b"b\n")
    if as_command:  # Codex does not report the end of these
        codex.before("Bash", {"command": "true"})
    else:
        codex.hook("PostToolUse", tool_name=tool, tool_input={"command": text}, tool_use_id="c")
    assert list_calls(codex)[0] == (tool, "ok")
    undo()
    assert read_tree(codex.project) == {"a.txt": b"one\n"}


def test_a_patch_of_which_nothing_is_reported_has_failed(codex: Agent) -> None:
    (codex.project / "a.txt").write_bytes(b"one\n")
    codex.before("apply_patch", {"command": PATCH}, "c")
    codex.hook("Stop")
    assert list_calls(codex) == [("apply_patch", "error")]


READ_ONLY = "mount --bind {0} {0}; mount -o remount,bind,ro {0}"


@pytest.mark.parametrize(
    ("mounts", "command", "outcome"),
    [
        (READ_ONLY.format("kept"), "echo x > x.txt; touch kept/y", {"x.txt": b"x\n", "kept/k": b"k"}),
        (READ_ONLY.format("."), "echo x > x.txt", {"kept/k": b"k"}),
        ("mkdir new; mount -t tmpfs -o ro none new", "echo x > x.txt; touch new/y", {"x.txt": b"x\n", "kept/k": b"k"}),
    ],
)
def test_what_the_agents_sandbox_keeps_read_only_stays_so_and_the_rest_is_undone(
    codex: Agent, undo: Undo, mounts: str, command: str, outcome: dict[str, bytes]
) -> None:
    (codex.project / "kept").mkdir()
    (codex.project / "kept" / "k").write_bytes(b"k")
    enclosed = enclose(codex, mounts)
    done = enclosed.run(command)
    assert done.returncode == 1 and b"Read-only file system" in done.stderr, done
    assert read_tree(codex.project) == outcome
    assert list_unwrapped(codex) == []
    if "x.txt" in outcome:
        undo()
        assert read_tree(codex.project) == {"kept/k": b"k"}


def test_a_sandbox_without_network_stays_without_it(codex: Agent) -> None:
    enclosed = enclose(codex, "true")
    command = "curl -sm 5 http://127.0.0.1:9/"
    enclosed.before("Bash", {"command": command})
    enclosed.hook("PermissionRequest", tool_name="Bash", tool_input={"command": command})
    program = "import socket; socket.create_connection(('127.0.0.1', 9), 1)"
    done = enclosed.run(f'python3 -c "{program}"')
    assert done.returncode == 1 and list_unwrapped(codex) == []


@pytest.mark.parametrize(
    "mounts",
    [
        "mount -t tmpfs none kept",  # hides what a draft would show
        'mount -t tmpfs none "$PWD"; cd "$PWD"',
        "mount --bind /dev/null kept/k",
        "mount -t tmpfs none /usr/share",
    ],
)
def test_a_sandbox_that_a_draft_cannot_match_keeps_its_command(codex: Agent, mounts: str) -> None:
    (codex.project / "kept").mkdir()
    (codex.project / "kept" / "k").write_bytes(b"k")
    done = enclose(codex, mounts).run("cat kept/k; ls /usr/share | wc -l")
    assert b"handrail: no undo for this command: the agent" in done.stderr, done
    assert len(list_unwrapped(codex)) == 1


def test_a_sandbox_of_another_kind_keeps_its_command(agent: Agent) -> None:
    done = enclose(agent, "true").run("echo x > x.txt")
    assert (done.returncode, read_tree(agent.project)) == (0, {"x.txt": b"x\n"})
    assert b"no undo for this command: the agent runs it in a sandbox of its own" in done.stderr


def test_codex_is_not_told_to_ask(codex: Agent) -> None:
    answers: list[Any] = [codex.before("Bash", {"command": one}) for one in ("git push origin main", "ls", "true")]
    assert answers == [{}, {}, {}]


def test_bash_reads_nothing_of_ours_for_commands_that_are_not_registered(codex: Agent, place: Path) -> None:
    done = finish(codex.start("echo plain; set | grep -c _handrail"))
    assert done.stdout.splitlines()[0] == b"plain" and place
    assert not list(codex.state.glob("attach/calls/*"))
