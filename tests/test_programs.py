"""Handrail starts no program that a checkout brings, whatever PATH says and whoever asks."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import handrail
from handrail import programs
from tests import sizes
from tests.command import surroundings

SRC = Path(handrail.__file__).parent
SYSTEM = os.environ.get("PATH", os.defpath)
NAMES = (
    *("git", "bash", "sh", "dash", "rg", "ssh", "docker", "kubectl", "true", "mkdir", "sleep", "cat", "grep"),
    *("diff", "gpg", "git-lfs", "env", "vi", "vim", "nano", "python3", "node", "handrail", "ssh-keygen", "mount"),
    *("fusermount3", "unshare", "newuidmap", "strace", "ps", "kill"),
)
TIMEOUT = 600


# No module but one looks for programs


BY_NAME = {
    *("which", "system", "popen", "posix_spawnp", "execlp", "execlpe", "execvp", "execvpe", "spawnlp", "spawnlpe"),
    *("spawnvp", "spawnvpe", "getoutput", "getstatusoutput", "create_subprocess_exec", "create_subprocess_shell"),
}
"""Functions that look for a program on PATH, or hand a text to a shell."""
STARTS = {"Popen", "run", "call", "check_call", "check_output", "spawn", "start_process", "start", "_run", "Target"}


def find_faults(tree: ast.AST) -> Iterator[int]:
    """The lines at which a module looks for a program, or starts one by its bare name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (node.lineno for name in node.names if name.name in BY_NAME)
        elif isinstance(node, ast.Attribute) and node.attr in BY_NAME:
            if isinstance(node.value, ast.Name) and node.value.id in ("shutil", "os", "subprocess", "asyncio"):
                yield node.lineno
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            words = node.args[0] if node.args else None
            first = words.elts[0] if isinstance(words, ast.List | ast.Tuple) and words.elts else None
            text = first.value if isinstance(first, ast.Constant) else None
            if name in STARTS and isinstance(text, str) and not text.startswith("/"):
                yield node.lineno
            if any(word.arg == "shell" and getattr(word.value, "value", False) for word in node.keywords):
                yield node.lineno


def test_one_module_looks_for_programs() -> None:
    modules = {
        str(path.relative_to(SRC))
        for path in SRC.rglob("*.py")
        if any(True for _ in find_faults(ast.parse(path.read_text(encoding="utf-8"))))
    }
    # An attached agent's command is its own.
    assert modules == {"programs.py", "attach/client/handrail_run.py"}


@pytest.mark.parametrize(
    ("code", "fine"),
    [
        ("subprocess.run(['git', 'status'])", False),
        ("subprocess.Popen(('ssh', host))", False),
        ("boundary.spawn(['true'], cwd=where)", False),
        ("start_process(['bash', '-c', text])", False),
        ("shutil.which('git')", False),
        ("from shutil import which", False),
        ("os.execvp(words[0], words)", False),
        ("subprocess.run(text, shell=True)", False),
        ("subprocess.run([get_program('git'), 'status'])", True),
        ("subprocess.run(['/bin/sh', '-c', text])", True),
        ("os.execve(path, args, env)", True),
    ],
)
def test_a_program_by_its_bare_name_would_be_found(code: str, fine: bool) -> None:
    assert (list(find_faults(ast.parse(code))) == []) is fine


# A hostile checkout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository that brings every program that Handrail may want; each leaves a file when it runs."""
    root = tmp_path / "checkout"
    bin_ = root / "node_modules" / ".bin"
    bin_.mkdir(parents=True)
    text = f'#!/bin/sh\necho "$0" >>"{tmp_path}/PWNED"\necho "$0" >>"{root}/PWNED"\nexit 1\n'
    for name in NAMES:
        (bin_ / name).write_text(text, encoding="utf-8")
        (bin_ / name).chmod(0o755)
    (root / "src").mkdir()
    (root / "src" / "a.py").write_text("needle = 1\n", encoding="utf-8")
    (root / ".vscode").mkdir()
    (root / ".vscode" / "tasks.json").write_text("{}\n", encoding="utf-8")
    (root / ".gitattributes").write_text("*.py diff=py filter=lfs\n", encoding="utf-8")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "src", ".vscode"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=root, check=True, capture_output=True, timeout=TIMEOUT)
    subprocess.run(["git", "config", "diff.py.textconv", "cat"], cwd=root, check=True, timeout=TIMEOUT)
    subprocess.run(["git", "remote", "add", "origin", "ssh://127.0.0.1:1/x"], cwd=root, check=True, timeout=TIMEOUT)
    return root


def _link_folder(root: Path) -> str:
    (root.parent / "tools").symlink_to(root / "node_modules" / ".bin")
    return str(root.parent / "tools")


def _link_programs(root: Path) -> str:
    folder = root.parent / "tools"
    folder.mkdir()
    for program in (root / "node_modules" / ".bin").iterdir():
        (folder / program.name).symlink_to(program)
    return str(folder)


def _link_root(root: Path) -> str:
    (root.parent / "alias").symlink_to(root)
    return str(root.parent / "alias" / "node_modules" / ".bin")


def _stand_there(root: Path) -> str:
    for program in (root / "node_modules" / ".bin").iterdir():
        (root / program.name).symlink_to(program)
    return ""


PATHS: dict[str, Callable[[Path], str]] = {
    "absolute": lambda root: str(root / "node_modules" / ".bin"),
    "relative": lambda _: "node_modules/.bin",
    "dotted": lambda root: f"{root}/src/..//./node_modules/.bin/",
    "a link to the folder": _link_folder,
    "links to the programs": _link_programs,
    "a link to the root": _link_root,
    "empty": _stand_there,
    "a dot": lambda root: _stand_there(root) or ".",
}
CALLS = """
import json, sys
from handrail import Session, Settings
root, mode, sandbox = sys.argv[1:]
calls = [("LS", {"path": "."}), ("Glob", {"pattern": "**/*.py"}), ("Grep", {"pattern": "needle"}),
         ("Read", {"file_path": "src/a.py"}), ("Write", {"file_path": "b.txt", "content": "b"}),
         *(("Bash", {"command": command}) for command in
           ("ls", "git status", "git log -p", "cat src/a.py | grep needle", "git fetch", "echo $(", "rg needle"))]
with Session(root, mode=mode, settings=Settings(sandbox=sandbox)) as session:
    print(json.dumps([[tool, session.call(tool, arguments).status] for tool, arguments in calls]))
"""


def _find_marks(root: Path) -> list[str]:
    marks = [root / "PWNED", root.parent / "PWNED"]
    return [line for mark in marks if mark.exists() for line in mark.read_text(encoding="utf-8").splitlines()]


def _run(words: list[str], root: Path, entry: str, text: str = "") -> subprocess.CompletedProcess[str]:
    env = surroundings({"PATH": os.pathsep.join([entry, SYSTEM]), "HOME": str(root.parent)})
    for name in ("HANDRAIL_RG", "EDITOR", "VISUAL", "SHELL"):
        env.pop(name, None)
    return subprocess.run(
        [sys.executable, *words], cwd=root, env=env, input=text, capture_output=True, encoding="utf-8", timeout=TIMEOUT
    )


@pytest.mark.parametrize("kind", PATHS)
def test_no_tool_runs_a_program_of_the_checkout_in_read_only_mode(checkout: Path, kind: str) -> None:
    done = _run(["-c", CALLS, str(checkout), "read-only", "auto"], checkout, PATHS[kind](checkout))
    statuses = dict(json.loads(done.stdout))
    assert {statuses[tool] for tool in ("LS", "Glob", "Grep", "Read")} <= {"ok", "partial"}, done.stderr
    assert _find_marks(checkout) == []


def _vary(rows: Sequence[str]) -> Sequence[tuple[str, str]]:
    """Each row with another kind of PATH; in the long run with every kind."""
    kinds = list(PATHS)
    every = [(row, kind) for row in rows for kind in kinds]
    return every if sizes.LONG else [(row, kinds[at % len(kinds)]) for at, row in enumerate(rows)]


@pytest.mark.parametrize(("sandbox", "kind"), _vary(["namespaces", "landlock", "off"]))
def test_no_sandbox_is_started_with_a_program_of_the_checkout(checkout: Path, kind: str, sandbox: str) -> None:
    _run(["-c", CALLS, str(checkout), "read-only", sandbox], checkout, PATHS[kind](checkout))
    assert _find_marks(checkout) == []


REQUESTS = [
    {
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}},
    },
    {"id": 2, "method": "tools/call", "params": {"name": "LS", "arguments": {"path": "."}}},
    {"id": 3, "method": "tools/call", "params": {"name": "Bash", "arguments": {"command": "ls"}}},
]
MESSAGES = "".join(json.dumps({"jsonrpc": "2.0", **request}) + "\n" for request in REQUESTS)
CONNECT = """
import sys
from handrail import ToolError, connect
for address in ("ssh://127.0.0.1:1/x", "docker://x/x", "kubectl://x/x/x"):
    try:
        connect(address).close()
    except (ToolError, OSError):
        pass
"""


INTERFACES = {
    "connect": (["-c", CONNECT], ""),
    "call LS": (["-m", "handrail", "call", "LS", '{"path": "."}', "--mode", "read-only"], ""),
    "mcp": (["-m", "handrail", "mcp", "serve", ".", "--mode", "read-only"], MESSAGES),
    "doctor": (["-m", "handrail", "doctor"], ""),
    "draft": (["-m", "handrail", "draft", "start", "trial"], ""),
    "call Bash": (["-m", "handrail", "call", "Bash", '{"command": "ls"}', "--mode", "read-only"], ""),
}


@pytest.mark.parametrize(("interface", "kind"), _vary(list(INTERFACES)))
def test_no_interface_runs_a_program_of_the_checkout(checkout: Path, interface: str, kind: str) -> None:
    words, text = INTERFACES[interface]
    done = _run(words, checkout, PATHS[kind](checkout), text)
    assert "Traceback" not in done.stderr
    assert "usage:" not in done.stderr
    assert _find_marks(checkout) == []


# Finding


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder outside of every workspace, with one program."""
    monkeypatch.chdir("/")
    folder = tmp_path / "outside"
    _put_program(folder)
    return folder


def _put_program(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "helper"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    return str(program)


def test_a_helper_is_found_behind_those_of_a_workspace(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "checkout"
    _put_program(root / "node_modules" / ".bin")
    for kind, make in PATHS.items():
        entry = make(root) if "link" not in kind else str(root)
        monkeypatch.setenv("PATH", os.pathsep.join([entry, str(tools)]))
        programs.distrust(str(root))
        assert programs.find_program("helper") == str(tools / "helper"), kind
        assert programs.make_search_path() == str(tools), kind
        for path in root.glob("helper"):
            path.unlink()


def test_the_current_directory_is_not_trusted_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _put_program(tmp_path / "project" / "bin")
    monkeypatch.setenv("PATH", os.path.dirname(program))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "project")
    assert programs.find_program("helper") is None
    monkeypatch.chdir(tmp_path)  # the home directory: everything of the person's is below it
    assert programs.find_program("helper") == program


def test_a_workspace_around_the_whole_machine_leaves_the_programs_of_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(programs, "_distrusted", {"/": None})
    monkeypatch.setenv("PATH", os.pathsep.join(["/opt/tools", *os.defpath.split(os.pathsep)]))
    assert programs.find_program("sh")
    assert "/opt/tools" not in programs.make_search_path()


@given(
    entries=st.lists(st.sampled_from(["in", "in/bin", "out", "link", "..", ".", "", "in/../out", "rel"]), max_size=5),
    roots=st.sets(st.sampled_from(["in", "link", "in/bin"]), min_size=1),
)
def test_what_is_found_is_absolute_and_below_no_root(
    tmp_path_factory: pytest.TempPathFactory, entries: list[str], roots: set[str]
) -> None:
    top = tmp_path_factory.mktemp("top")
    for name in ("in", "in/bin", "out"):
        _put_program(top / name)
    (top / "link").symlink_to(top / "in")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "_distrusted", {})
        patch.chdir("/")
        relative = ("..", ".", "", "rel")
        patch.setenv("PATH", os.pathsep.join(one if one in relative else str(top / one) for one in entries))
        programs.distrust(*(str(top / root) for root in roots))
        program = programs.find_program("helper")
    inside = [os.path.realpath(top / root) for root in roots]
    if program is not None:
        assert os.path.isabs(program)
        assert not any(f"{os.path.realpath(program)}/".startswith(f"{root}/") for root in inside)
    assert program or not {"out", "in/../out"} & set(entries)
