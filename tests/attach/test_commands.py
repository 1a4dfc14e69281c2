"""Commands of an attached agent: they behave as before, run in drafts, and can be undone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from handrail import Session, Settings
from handrail.attach.agents import AttachedAgent
from handrail.attach.contracts import CONTRACTS, HookEvent
from tests.attach.conftest import Agent, Helper, finish

Undo = Callable[[], list[str]]


def read_tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def list_calls(agent: Agent) -> list[tuple[str, str]]:
    """Tool and status of every recorded call."""
    from handrail.journal.queries import JournalReader
    from handrail.journal.store import get_default_path

    with JournalReader(get_default_path(str(agent.state))) as reader:
        return [(row.tool, row.status) for row in reader.iterate_calls()]


@pytest.mark.parametrize(
    "command",
    [
        "echo new > new.txt",
        "sed -i s/one/two/ a.txt",
        "rm a.txt",
        "mv a.txt b.txt",
        "mkdir -p d/e && cp a.txt d/e/c.txt",
        "git init -q . && git add a.txt && git -c user.name=n -c user.email=e commit -qm first",
        "printf 'it'\"'\"'s\\n' > 'a b.txt'",
        "chmod 600 a.txt && echo more >> a.txt",
    ],
)
def test_a_command_changes_the_project_and_undo_restores_it_byte_for_byte(
    agent: Agent, undo: Undo, command: str
) -> None:
    (agent.project / "a.txt").write_bytes(b"one\r\n\xff")
    before = read_tree(agent.project)
    done = agent.run(command)
    assert (done.returncode, done.stderr) == (0, b"")
    assert read_tree(agent.project) != before
    undo()
    assert read_tree(agent.project) == before
    assert list_calls(agent)[0] == ("Bash", "ok")


def test_output_and_errors_keep_their_streams_and_the_exit_status_is_the_commands(agent: Agent) -> None:
    done = agent.run("echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_output_that_goes_to_one_place_keeps_its_order(agent: Agent) -> None:
    command = "for n in 1 2 3 4 5; do echo out $n; echo err $n >&2; done"
    agent.before("Bash", {"command": command})
    done = finish(agent.start(command, stderr=subprocess.STDOUT))
    assert done.stdout.decode() == "".join(f"out {n}\nerr {n}\n" for n in range(1, 6))


def test_output_is_there_while_the_command_runs_and_input_reaches_it(agent: Agent) -> None:
    command = "echo ready; read -r line; echo got $line"
    agent.before("Bash", {"command": command})
    process = agent.start(command, stdin=subprocess.PIPE)
    assert process.stdin and process.stdout
    assert process.stdout.readline() == b"ready\n"
    process.stdin.write(b"words\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"got words\n"
    assert finish(process).returncode == 0


def test_much_output_and_much_input_arrive_whole(agent: Agent) -> None:
    command = "cat"
    agent.before("Bash", {"command": command})
    process = agent.start(command, stdin=subprocess.PIPE)
    data = os.urandom(3_000_000)
    out, err = process.communicate(data, timeout=60)
    assert (out == data, err, process.returncode) == (True, b"", 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_its_changes_can_be_undone(agent: Agent, undo: Undo, number: int) -> None:
    command = "echo half > half.txt; echo ready; sleep 600"
    agent.before("Bash", {"command": command})
    process = agent.start(command)
    assert process.stdout and process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    assert finish(process).returncode != 0
    assert read_tree(agent.project) == {"half.txt": b"half\n"}
    undo()
    assert read_tree(agent.project) == {}


def test_a_killed_wrapper_takes_its_command_with_it(agent: Agent) -> None:
    command = "echo $$; sleep 600; echo late > late.txt"
    agent.before("Bash", {"command": command})
    process = agent.start(command)
    assert process.stdout and process.stdout.readline()
    process.kill()
    finish(process)
    calls = agent.state / "attach" / "calls"
    while any(calls.iterdir()):  # the helper removes the channel when the command has ended
        os.sched_yield()
    assert read_tree(agent.project) == {}


def test_the_last_directory_is_handed_back(agent: Agent) -> None:
    (agent.project / "sub").mkdir()
    agent.run("cd sub")
    assert (agent.state.parent / "cwd").read_text(encoding="utf-8") == f"{agent.project}/sub\n"


def test_a_command_starts_in_the_agents_directory_with_its_variables(agent: Agent) -> None:
    (agent.project / "sub").mkdir()
    agent.environment |= {"VIRTUAL_ENV": "/v", "MINE": "yes", "MY_API_KEY": "secret"}
    command = 'pwd; echo "$VIRTUAL_ENV $MINE [$MY_API_KEY]"'
    agent.hook(
        "PreToolUse",
        tool_name="Bash",
        tool_input={"command": command},
        tool_use_id="c",
        cwd=str(agent.project / "sub"),
    )
    done = finish(agent.start(command, cwd=agent.project / "sub"))
    assert done.stdout.decode() == f"{agent.project}/sub\n/v yes []\n"


def test_the_persons_shell_functions_are_there(agent: Agent) -> None:
    agent.quote("")
    snapshot = agent.state.parent / "shell-snapshots" / "snapshot-bash-1-a.sh"
    snapshot.write_text("greet() { echo hello $1; }\n", encoding="utf-8")
    assert agent.run("greet you").stdout == b"hello you\n"


def test_equal_commands_at_the_same_time_each_run_once(agent: Agent) -> None:
    command = "mktemp XXXXXX.made"
    for _ in range(4):
        agent.before("Bash", {"command": command})
    done = [finish(process) for process in [agent.start(command) for _ in range(4)]]
    assert [one.returncode for one in done] == [0] * 4
    assert sorted(read_tree(agent.project)) == sorted(one.stdout.decode().strip() for one in done)
    assert list_calls(agent).count(("Bash", "ok")) == 4


def test_a_process_that_is_left_behind_ends_with_its_command_and_the_model_reads_how_to_keep_one(agent: Agent) -> None:
    done = agent.run("sleep 600 & echo on")
    assert (done.returncode, done.stdout) == (0, b"on\n")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("handrail: ") and "sleep 600" in line and "use run_in_background: true" in line


def test_a_background_command_is_judged_and_recorded_as_a_job_and_undone_by_its_number(agent: Agent) -> None:
    (agent.project / "a.txt").write_bytes(b"one\r\n\xff")
    (agent.project / ".github" / "workflows").mkdir(parents=True)
    changes = {"a.txt": "two", "b.txt": "new", ".github/workflows/ci.yml": "protected"}
    script = "".join(f"open({name!r}, 'w').write({text!r})\n" for name, text in changes.items())
    (agent.project / "change.py").write_text(script, encoding="utf-8")
    before = read_tree(agent.project)
    agent.run("python3 change.py", run_in_background=True)  # the protected file may be read-only for it
    while ("Job", "ok") not in (calls := list_calls(agent)):  # the helper records it when the job has ended
        os.sched_yield()
    assert read_tree(agent.project) == {**before, "a.txt": b"two", "b.txt": b"new"}
    with Session(agent.project, settings=Settings(state=str(agent.state))) as session:
        session.undo(call=calls.index(("Job", "ok")) + 1, any_session=True)
    assert read_tree(agent.project) == before


def test_a_background_command_runs_until_it_ends(agent: Agent) -> None:
    done = agent.run("echo begun; echo made > made.txt; exit 3", run_in_background=True)
    assert (done.returncode, done.stdout) == (3, b"begun\n")
    assert read_tree(agent.project) == {"made.txt": b"made\n"}


def test_a_command_that_its_agent_moves_to_the_background_keeps_its_session_and_is_undone(
    agent: Agent, undo: Undo
) -> None:
    calls = str(agent.state / "attach" / "calls")
    Path(calls).mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HANDRAIL_STATE", str(agent.state))
        mine = AttachedAgent(CONTRACTS["claude"], str(agent.project), os.getpid(), calls)
    command = "echo ready; read -r _; echo made > made.txt"
    fields = {"session_id": "s9", "cwd": str(agent.project), "tool_name": "Bash", "tool_use_id": "c"}
    event = {**fields, "tool_input": {"command": command}, "hook_event_name": "PreToolUse"}
    mine.handle(HookEvent.parse("claude", json.dumps(event).encode()))
    process = agent.start(command, stdin=subprocess.PIPE)
    assert process.stdin and process.stdout and process.stdout.readline() == b"ready\n"
    mine.handle(HookEvent.parse("claude", json.dumps({**event, "hook_event_name": "PostToolUse"}).encode()))
    assert mine.is_busy  # so the helper does not close its session
    process.communicate(b"\n", timeout=60)
    assert not mine.is_busy
    assert read_tree(agent.project) == {"made.txt": b"made\n"}
    undo()
    assert read_tree(agent.project) == {}
    mine.close()


def test_a_command_that_no_hook_announced_runs_as_if_handrail_were_not_attached(agent: Agent) -> None:
    done = finish(agent.start("echo plain > plain.txt; echo said"))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"said\n", b"")
    assert read_tree(agent.project) == {"plain.txt": b"plain\n"}


def test_a_registration_starts_one_command_and_ends_with_the_turn(agent: Agent) -> None:
    agent.before("Bash", {"command": "echo once"})
    agent.hook("Stop")
    while any((agent.state / "attach" / "calls").iterdir()):  # the thread that serves it removes it
        os.sched_yield()
    assert finish(agent.start("echo once")).stdout == b"once\n"


def test_hooks_and_servers_of_others_pass_through(agent: Agent) -> None:
    words = [agent.launcher, "printf '%s' \"$MINE\"; exit 4"]
    done = subprocess.run(words, env={**agent.environment, "MINE": "mine"}, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (4, b"mine")


def test_a_secret_is_hidden_from_commands_and_refused_to_read(agent: Agent) -> None:
    (agent.project / ".env").write_text("KEY=value\n", encoding="utf-8")
    assert agent.run("grep -r value . ; true").stdout == b""
    for tool, arguments in (("Read", {"file_path": str(agent.project / ".env")}), ("Bash", {"command": "cat .env"})):
        answer = agent.before(tool, arguments)
        assert answer["permissionDecision"] == "deny" and "secret" in answer["permissionDecisionReason"]


def test_a_command_that_changes_a_protected_file_fails_and_changes_nothing(agent: Agent) -> None:
    done = agent.run("mkdir -p .github/workflows && touch ran.txt .github/workflows/ci.yml && echo said")
    assert (done.returncode, done.stdout) == (126, b"said\n")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("handrail: ") and "changes were not kept" in line and ".github/workflows" in line
    assert not any(agent.project.iterdir())


def test_what_is_refused_everywhere_is_refused_with_one_line(agent: Agent) -> None:
    answer = agent.before("Bash", {"command": "rm -rf /"})
    assert answer["permissionDecision"] == "deny"
    assert answer["permissionDecisionReason"].startswith("handrail: ")
    assert "\n" not in answer["permissionDecisionReason"]


def test_the_network_is_a_question_of_the_agent(agent: Agent) -> None:
    answer = agent.before("Bash", {"command": "git push origin main"})
    assert answer["permissionDecision"] == "ask", answer


def test_plan_mode_is_left_to_the_agent(agent: Agent) -> None:
    answer = agent.hook(
        "PreToolUse", tool_name="Bash", tool_input={"command": "ls"}, tool_use_id="c", permission_mode="plan"
    )
    assert answer == {}
    assert not any((agent.state / "attach" / "calls").iterdir())


def test_prompts_mark_turns_and_the_end_of_a_turn_says_how_to_undo_it(agent: Agent) -> None:
    agent.hook("UserPromptSubmit", prompt="first")
    agent.run("echo 1 > first.txt")
    agent.hook("Stop")
    agent.hook("UserPromptSubmit", prompt="second")
    agent.run("echo 2 > second.txt; echo 3 > third.txt")
    spoken = agent.hook("Stop")["systemMessage"]
    assert spoken == "handrail: 2 files changed; `handrail undo --turn` undoes this turn"
    with Session(agent.project, settings=Settings(state=str(agent.state))) as session:
        session.undo(turn=True, any_session=True)
    assert sorted(read_tree(agent.project)) == ["first.txt"]


def test_the_end_of_a_turn_names_a_command_that_is_still_running(agent: Agent, undo: Undo) -> None:
    command = "echo ready; read -r _; echo late > late.txt"
    agent.before("Bash", {"command": command})
    process = agent.start(command, stdin=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == b"ready\n"
    assert agent.hook("Stop")["systemMessage"] == "handrail: 1 command still running, with changes to come"
    process.communicate(b"\n", timeout=60)
    assert read_tree(agent.project) == {"late.txt": b"late\n"}
    undo()
    assert read_tree(agent.project) == {}


def test_the_end_of_a_turn_leaves_the_calls_of_subagents_alone(agent: Agent, undo: Undo) -> None:
    command, path = "echo 1 > made.txt", agent.project / "a.txt"
    edit = {"tool_name": "Write", "tool_input": {"file_path": str(path)}, "tool_use_id": "e", "agent_id": "a1"}
    agent.hook("PreToolUse", **edit)
    agent.hook("PreToolUse", tool_name="Bash", tool_input={"command": command}, tool_use_id="c", agent_id="a1")
    agent.hook("Stop")
    agent.hook("UserPromptSubmit", prompt="next")
    finish(agent.start(command))
    path.write_bytes(b"a")
    agent.hook("PostToolUse", **edit)
    assert sorted(read_tree(agent.project)) == ["a.txt", "made.txt"]
    undo()
    undo()
    assert read_tree(agent.project) == {}


def test_a_helper_that_is_killed_loses_no_file_and_another_takes_over(agent: Agent, helper: Helper) -> None:
    (agent.project / "a.txt").write_bytes(b"one\n")
    command = "echo two > a.txt; echo ready; sleep 600"
    agent.before("Bash", {"command": command})
    process = agent.start(command)
    assert process.stdout and process.stdout.readline() == b"ready\n"
    helper.kill()
    done = finish(process)
    assert done.returncode == 125 and b"the helper ended" in done.stderr
    assert read_tree(agent.project) == {"a.txt": b"one\n"}
    helper.start()
    assert agent.run("echo three > a.txt").returncode == 0
    assert read_tree(agent.project) == {"a.txt": b"three\n"}


def test_two_agents_share_a_project_and_each_change_is_undone_on_its_own(agent: Agent, undo: Undo) -> None:
    other = replace(agent, session="s2")
    threads = [
        threading.Thread(target=one.run, args=(f"for n in 1 2 3; do echo $n >> {name}.txt; done",))
        for one, name in ((agent, "a"), (other, "b"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(read_tree(agent.project)) == ["a.txt", "b.txt"]
    undo()
    assert len(read_tree(agent.project)) == 1
    undo()
    assert read_tree(agent.project) == {}
