"""Sixty commands of twelve kinds and thirty edits of attached agents, on generated projects: undone byte for byte."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.attach.conftest import Agent, finish
from tests.attach.test_edits import edit

Undo = Callable[[], list[str]]
GIT = "git -c user.name=n -c user.email=e -c commit.gpgsign=false"
_EACH = 5
_ENDS = ("\n", "\r\n", "")


def make_project(root: Path, rng: random.Random) -> list[str]:
    """Fill a directory with files of many kinds; returns the names of the text files."""
    names = []
    for number in range(rng.randint(4, 8)):
        path = root.joinpath(*(f"d{rng.randint(0, 2)}" for _ in range(rng.randint(0, 3))), f"file {number}.txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (f"line {rng.random()}" for _ in range(rng.randint(1, 9)))
        path.write_bytes((rng.choice(_ENDS).join(lines) + rng.choice(_ENDS)).encode())
        path.chmod(rng.choice((0o644, 0o600, 0o755)))
        names.append(str(path.relative_to(root)))
    (root / "binary").write_bytes(rng.randbytes(rng.randint(0, 3000)))
    (root / "link").symlink_to(rng.choice(names))
    return names


def read_everything(root: Path) -> dict[str, tuple[int, bytes]]:
    """The mode and the contents of everything below a directory."""
    entries = {}
    for path in root.rglob("*"):
        status = path.lstat()
        kind = stat.S_IFMT(status.st_mode)
        raw = os.fsencode(os.readlink(path)) if kind == stat.S_IFLNK else path.read_bytes() if path.is_file() else b""
        entries[str(path.relative_to(root))] = status.st_mode, raw
    return entries


def prepare(root: Path, script: str) -> None:
    subprocess.run(["bash", "-ec", script], cwd=root, check=True, capture_output=True)


def commit(root: Path, names: list[str], rng: random.Random) -> str:
    prepare(root, f"git init -q -b main . && git add -A && {GIT} commit -qm first")
    (root / rng.choice(names)).write_text(f"changed {rng.random()}\n", encoding="utf-8")
    return f"{GIT} commit -qam second && echo more > more.txt && git add . && {GIT} commit -qm third"


def rebase(root: Path, names: list[str], rng: random.Random) -> str:
    name = shlex.quote(rng.choice(names))
    prepare(root, f"git init -q -b main . && git add -A && {GIT} commit -qm first && git checkout -qb side")
    prepare(root, f"echo side > {name} && {GIT} commit -qam side && git checkout -q main")
    prepare(root, f"echo main > other.txt && git add . && {GIT} commit -qm main && git checkout -q side")
    return f"{GIT} rebase -q main"


def npm(root: Path, _: list[str], rng: random.Random) -> str:
    if not shutil.which("npm"):
        pytest.skip("there is no npm")
    (root / "package.json").write_text('{"name": "p", "version": "1.0.0"}\n', encoding="utf-8")
    (root / "dep").mkdir()
    package = json.dumps({"name": "dep", "version": f"1.0.{rng.randint(0, 99)}"})
    (root / "dep" / "package.json").write_text(package, encoding="utf-8")
    return "npm install --offline --no-audit --no-fund --no-update-notifier --cache /tmp/npm ./dep"


def pip(root: Path, _: list[str], rng: random.Random) -> str:
    python = os.path.realpath(sys.executable)
    if subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        pytest.skip("there is no pip")
    version = f"1.{rng.randint(0, 99)}"
    with zipfile.ZipFile(root / f"made-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("made.py", f"number = {rng.random()}\n")
        info = f"made-{version}.dist-info"
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: made\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return f"{python} -m pip install -q --no-index --no-deps --root-user-action=ignore --target vendor ./made-*.whl"


def make(root: Path, names: list[str], _: random.Random) -> str:
    if not shutil.which("make"):
        pytest.skip("there is no make")
    body = f"all: out/a\nout/a:\n\tmkdir -p out && cp {shlex.quote(names[0])} out/a && rm -f binary\n"
    (root / "Makefile").write_text(body, encoding="utf-8")
    return "make -s"


def run_tests(root: Path, _: list[str], rng: random.Random) -> str:
    (root / "lib.py").write_text(f"number = {rng.random()}\n", encoding="utf-8")
    body = "import lib, unittest\nclass T(unittest.TestCase):\n    def test(self): open('report', 'w').write('ok')\n"
    (root / "test_lib.py").write_text(body, encoding="utf-8")
    return "python3 -m unittest -q"


def format_file(root: Path, _: list[str], rng: random.Random) -> str:
    (root / "data.json").write_text(json.dumps({"a": [rng.random()] * 5}), encoding="utf-8")
    return "python3 -m json.tool data.json data.json"


def serve(root: Path, names: list[str], rng: random.Random) -> str:
    (root / "serve.py").write_text(_SERVER, encoding="utf-8")
    return f"python3 serve.py {shlex.quote(rng.choice(names))}"


_SERVER = """import http.server, os, sys, threading
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
with open("served.log", "w") as log:
    log.write(f"{server.server_address[0]} {os.path.getsize(sys.argv[1])}")
os.rename(sys.argv[1], "taken")
server.shutdown()
"""


def on_files(pattern: str) -> Callable[[Path, list[str], random.Random], str]:
    """A command on some of the text files."""

    def build(_: Path, names: list[str], rng: random.Random) -> str:
        chosen = rng.sample(names, 2)
        return pattern.format(*map(shlex.quote, chosen), all=" ".join(map(shlex.quote, names)))

    return build


@dataclass(frozen=True, slots=True)
class Kind:
    """How a command is made, and whether the person may be asked about it: it can use the network."""

    build: Callable[[Path, list[str], random.Random], str]
    is_asked: bool = False


KINDS = {
    "git commit": Kind(commit),
    "git rebase": Kind(rebase),
    "npm install": Kind(npm, is_asked=True),
    "pip install": Kind(pip, is_asked=True),
    "sed -i": Kind(on_files("sed -i 's/line/LINE/; s/0/zero/g' {all}")),
    "mv": Kind(on_files("mv {0} moved && mkdir -p new/place && mv {1} new/place/ && mv link binary new/")),
    "rm -rf": Kind(on_files("rm -rf d0 d1 d2 {0} link")),
    "make": Kind(make),
    "tar": Kind(on_files("tar czf all.tgz {all} && rm {0} && mkdir x && tar xzf all.tgz -C x && chmod 700 {1}")),
    "tests": Kind(run_tests),
    "formatter": Kind(format_file),
    "server": Kind(serve),
}


@pytest.mark.parametrize("client", ["claude", "codex"])
@pytest.mark.parametrize("name", KINDS)
def test_commands_of_every_kind_are_undone_byte_for_byte(
    agent: Agent, codex: Agent, undo: Undo, name: str, client: str
) -> None:
    actor = agent if client == "claude" else codex
    for seed in range(_EACH):
        rng = random.Random(f"{name} {seed}")
        for left in agent.project.iterdir():
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        names = make_project(agent.project, rng)
        command = KINDS[name].build(agent.project, names, rng)
        before = read_everything(agent.project)
        answer = actor.before("Bash", {"command": command})
        assert answer.get("permissionDecision") in (("ask", None) if KINDS[name].is_asked else (None,)), answer
        if KINDS[name].is_asked:  # and the person says yes
            actor.hook("PermissionRequest", tool_name="Bash", tool_input={"command": command})
        done = finish(actor.start(command))
        assert done.returncode == 0 and b"handrail" not in done.stderr, (command, done)
        assert read_everything(agent.project) != before, command
        undo()
        assert read_everything(agent.project) == before, command


def test_thirty_edits_are_undone_one_after_the_other(agent: Agent, undo: Undo) -> None:
    rng = random.Random(34)
    names = [*make_project(agent.project, rng), "new/one.txt", "new/two.txt"]
    states = [read_everything(agent.project)]
    (agent.project / "new").mkdir()
    states[0] = read_everything(agent.project)
    for number in range(30):
        path = agent.project / rng.choice(names)
        after = f"{rng.random()}{rng.choice(_ENDS)}".encode() + rng.randbytes(rng.randint(0, 50))
        edit(agent, rng.choice(("Edit", "Write", "MultiEdit", "NotebookEdit")), path, after, f"c{number}")
        states.append(read_everything(agent.project))
    for state in reversed(states[:-1]):
        undo()
        assert read_everything(agent.project) == state
