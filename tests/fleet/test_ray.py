"""A fleet on a real Ray: `make test-fleet` installs it and sets HANDRAIL_FLEET."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from benchmarks.postgres_server import PostgresServer
from handrail import AnySession, Fleet, FleetWorkspace
from handrail_demo.scripted_server import Line, ScriptedServer, Seen
from tests.command import handrail
from tests.docs.pages import blocks_of
from tests.drafts.machine import require_drafts
from tests.fleet.kill_test import STEPS, check_ledgers, check_records, make_steps, make_tree, read_ledgers, run_beside

pytestmark = pytest.mark.skipif(not os.environ.get("HANDRAIL_FLEET"), reason="needs Ray: `make test-fleet` installs it")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> str:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.txt").write_text("one\n")
    return str(tmp_path / "tree")


READ = ("Read", {"file_path": "a.txt"})
EDIT = ("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"})
REPLIES = [Line("", [READ]), Line("", [EDIT]), Line("It says two.")]


def reply(seen: Seen) -> Line:
    """By the length of the conversation: several tasks ask at once."""
    return REPLIES[len([one for one in seen.body["messages"] if one["role"] == "assistant"])]


@dataclass(frozen=True)
class Nodes:
    """A cluster of two nodes on this machine."""

    address: str
    database: str
    """The journal that both nodes ship to."""
    variables: dict[str, str]
    """Where their state and their configuration are."""


@pytest.fixture(scope="module")
def cluster(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Its workers know a scripted model, and a common journal."""
    ray: Any = import_module("ray")
    nodes = import_module("ray.cluster_utils")
    psycopg = import_module("psycopg")
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE fleet")
    folder = tmp_path_factory.mktemp("nodes")
    (folder / "config.toml").write_text(f'[settings]\njournal = "{postgres_server.url("fleet")}"\n', encoding="utf-8")
    variables = {"HANDRAIL_STATE": str(folder / "state"), "HANDRAIL_CONFIG": str(folder / "config.toml")}
    with ScriptedServer(reply) as model, pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.setenv("OPENAI_BASE_URL", model.url)
        patch.setenv("OPENAI_API_KEY", "x")
        patch.setenv("PYTHONPATH", str(ROOT))  # workers import the functions of these tests
        two = _start_cluster(ray, nodes)
        yield Nodes(two.address, postgres_server.url("fleet"), variables)
        ray.shutdown()
        two.shutdown()


def _start_cluster(ray: Any, nodes: Any) -> Any:
    """Ray gives up a node whose agent takes more than 15 seconds to start, as on a busy machine: try again then."""
    for left in reversed(range(5)):
        two = nodes.Cluster()
        try:
            for _ in range(2):
                two.add_node(num_cpus=4)
            ray.init(address=two.address, log_to_driver=False)
            return two
        except Exception:
            two.shutdown()
            if not left:
                raise
    return None


@pytest.fixture
def fleet(cluster: Nodes) -> Iterator[Fleet]:
    with Fleet(cluster.address, mode="full") as one:
        yield one


def edit_and_die_once(session: AnySession, workspace: FleetWorkspace) -> str:
    """Two commands that leave a line each and an edit; the worker is killed between them, the first time."""
    session.call("Bash", {"command": "echo first >> ledger.txt"})
    session.call("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "one more"})
    mark = Path(workspace.data["marks"], workspace.name)
    if workspace.data["dies"] and not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    if workspace.name == "poison":
        raise RuntimeError("poison")
    session.call("Bash", {"command": "echo second >> ledger.txt"})
    return session.call("Bash", {"command": "cat ledger.txt a.txt"}).text


@pytest.mark.slow
def test_killed_workers_and_a_poison_workspace(fleet: Fleet, tree: str, tmp_path: Path) -> None:
    (tmp_path / "marks").mkdir()
    names = [*(f"w{number}" for number in range(8)), "poison"]
    workspaces = [
        FleetWorkspace(name, folder=tree, data={"marks": str(tmp_path / "marks"), "dies": number % 4 == 0})
        for number, name in enumerate(names)
    ]
    results = {one.workspace: one for one in fleet.map(edit_and_die_once, workspaces, concurrency=3)}
    assert sorted(results) == sorted(names)
    assert "poison" in results.pop("poison").error
    assert {one.value for one in results.values()} == {"first\nsecond\none more"}, results
    assert len(list((tmp_path / "marks").iterdir())) >= 2
    assert len({one.node for one in results.values()}) == 2  # both nodes had work
    assert {one.built for one in results.values()} <= {"draft", "reflink", "copy", "reopened"}


@pytest.mark.slow
def test_a_session_on_a_cluster_works_where_the_files_are(fleet: Fleet, tree: str) -> None:
    workspaces = [FleetWorkspace(f"s{number}", folder=tree) for number in range(2)]
    nodes = {one.workspace: one.node for one in fleet.map(leave_a_file, workspaces)}
    for workspace in workspaces:
        with fleet.session(workspace) as session:
            assert session.call("Read", {"file_path": "node.txt"}).text.split("\t")[1] == nodes[workspace.name]
            assert session.call("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "1"}).ok
            lines = session.call("Bash", {"command": "seq 1 2000; cat a.txt"}).text
            assert lines.endswith("1") and lines.startswith("1\n2")
            os.kill(session._link._connection.pid, signal.SIGKILL)  # type: ignore[attr-defined]
            assert "1" in session.call("Read", {"file_path": "a.txt"}).text
            session.undo()
            assert "one" in session.call("Read", {"file_path": "a.txt"}).text


@pytest.mark.slow
def test_a_draft_on_a_cluster_is_kept_where_the_files_are(fleet: Fleet, tree: str) -> None:
    require_drafts()
    workspaces = [FleetWorkspace(f"d{number}", folder=tree) for number in range(4)]
    assert {one.value for one in fleet.map(leave_own_file, workspaces)} == {"ok"}
    for workspace in workspaces[:-1]:
        with fleet.draft(workspace) as draft:
            assert [one.path for one in draft.keep()] == [f"{workspace.name}.txt"]
    with fleet.draft(workspaces[-1]) as draft:
        draft.drop()
    kept = [f"d{number}.txt" for number in range(3)]  # both nodes are on this machine, and share the copy
    assert [(one.value, one.built) for one in fleet.map(list_own_files, workspaces)] == [(kept, "draft")] * 4
    assert os.listdir(tree) == ["a.txt"]


def leave_own_file(session: AnySession, workspace: FleetWorkspace) -> str:
    return session.call("Write", {"file_path": f"{workspace.name}.txt", "content": "x\n"}).status


def list_own_files(session: AnySession, _: FleetWorkspace) -> list[str]:
    return session.call("Bash", {"command": "ls d*.txt"}).text.split()


def leave_a_file(session: AnySession, _: FleetWorkspace) -> str:
    node = import_module("ray").get_runtime_context().get_node_id()
    return session.call("Write", {"file_path": "node.txt", "content": node}).status


@pytest.mark.slow
def test_the_kill_test(fleet: Fleet, cluster: Nodes, postgres_server: PostgresServer, tmp_path: Path) -> None:
    """HANDRAIL_KILL_WORKSPACES: how many. The database is restarted all the time, as after a crash."""
    count = int(os.environ.get("HANDRAIL_KILL_WORKSPACES", "200"))
    folder = make_tree(tmp_path / "ledger")
    (tmp_path / "marks").mkdir()
    dying = set(random.Random(3).sample(range(count), max(1, count // 20)))
    data = {"seed": 3, "cuts": 2, "marks": str(tmp_path / "marks")}
    workspaces = [
        FleetWorkspace(f"k{number}", folder=folder, data={**data, "dies": number in dying}) for number in range(count)
    ]
    with restart_often(postgres_server):
        results = {one.workspace: one for one in fleet.map(make_steps, workspaces, concurrency=8)}
    assert [one.error for one in results.values() if one.error] == []
    assert len(list((tmp_path / "marks").iterdir())) == len(dying)
    for one in fleet.map(read_ledgers, workspaces, concurrency=8):
        check_ledgers(results[one.workspace].value, *one.value)
    check_records(cluster.database, tmp_path, cluster.variables, edits=STEPS * count)
    ends = [end for one in results.values() for end in one.value]
    print(
        f"{count} workspaces, {len(dying)} workers killed, {ends.count('interrupted')} of {len(ends)} calls interrupted"
    )


@contextlib.contextmanager
def restart_often(server: PostgresServer) -> Iterator[None]:
    def restart(over: threading.Event) -> None:
        while not over.wait(5):
            server.restart("immediate")

    with run_beside(restart):
        yield


@pytest.mark.slow
def test_the_example_of_the_page(
    tree: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = [one for one in blocks_of("python") if one.page == "fleet.md" and "Fleet(" in one.text]
    monkeypatch.chdir(tmp_path)
    exec(block.text.replace('folder="tree"', f"folder={tree!r}"), {"__name__": "__main__"})
    lines = sorted(capsys.readouterr().out.splitlines())
    assert [line.split()[:2] for line in lines] == [[f"copy-{number}", "ok"] for number in range(4)]


@pytest.mark.slow
def test_the_command_runs_tasks(cluster: Nodes, tree: str, tmp_path: Path) -> None:
    lines = [
        {
            "workspace": {"name": name, "folder": tree},
            "calls": [{"tool": "Write", "arguments": {"file_path": "b.txt", "content": name}}],
            "check": f"grep -q {expected} b.txt",
        }
        for name, expected in (("good", "good"), ("bad", "other"))
    ]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = handrail("fleet", "run", "tasks.jsonl", "--address", cluster.address, "--mode", "full", cwd=tmp_path)
    answers = {one["workspace"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 1
    assert (answers["good"]["passed"], answers["bad"]["passed"]) == (True, False), done.stderr
    assert b"2 tasks, 1 passed" in done.stderr
    assert b" s each, at most" in done.stderr


@pytest.mark.slow
def test_a_prompt_is_a_task(cluster: Nodes, tree: str, tmp_path: Path) -> None:
    tasks = [
        {"workspace": {"name": name, "folder": tree}, "prompt": "make it two", "check": "grep -q two a.txt"}
        for name in ("p1", "p2")
    ]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(one) + "\n" for one in tasks))
    words = ["--address", cluster.address, "--mode", "full", "--model", "scripted", "--api", "chat"]
    done = handrail("fleet", "run", "tasks.jsonl", *words, cwd=tmp_path)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["passed"], one["text"]) for one in answers] == [(True, "It says two.")] * 2, (answers, done.stderr)
    assert done.returncode == 0
