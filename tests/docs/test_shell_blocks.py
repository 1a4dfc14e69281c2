"""Every command that README and docs show can be typed as it stands there."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import tomllib
from collections.abc import Iterator

import pytest

from handrail.agent.store import Store
from handrail_demo.scripted_server import Line, ScriptedServer, in_order
from tests.docs.pages import ROOT, TIMEOUT, Block, Place, blocks, blocks_of
from tests.drafts.machine import find_obstacle

SHELL = blocks_of("sh", "console")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
SERVER = re.compile(r"http://127\.0\.0\.1:\d+/v1")
INSTALL = re.compile(r"(?:pip|pipx|uv tool) install '?(?:handrail|\.)(?:\[(.+)\])?'?(?:\s+#.*)?")
PLAIN = re.compile(r"handrail(?: (?:[\w@%+=:,./-]+|'[^'\n]*'))+")
"""One command of ours whose words bash takes as they are."""
KINDS = {"python", "py", "sh", "console", "toml"}


@pytest.fixture
def place(place: Place) -> Place:
    """A project under git, with all that the pages speak of."""
    place.write("README.md", "# A project\n")
    place.write("notes.txt", "one\ntwo\nthree\n")
    place.write("src/app.py", "print('hello')\n")
    place.write("src/main.py", "print('hello')\n")
    place.write("conf/.env", "PASSWORD=secret\n")
    for words in (["init", "-q"], ["add", "-A"]):
        assert place.run("git", *words).returncode == 0
    place.write("src/main.py", "print('changed')\n")
    inner = place.project / "path" / "to" / "project"
    inner.mkdir(parents=True)
    return place


def commands(page: str) -> Iterator[tuple[Block, str, str]]:
    """The commands of a page in order, each with what is shown below it; settings hold to the end of their block."""
    for block in SHELL:
        if block.page != page:
            continue
        before = ""
        typed = [line for line in block.text.splitlines() if line.strip()]
        for number, line in enumerate(typed):
            if block.kind == "console":
                if line.startswith("$ "):
                    below = []
                    for other in typed[number + 1 :]:
                        if other.startswith("$ "):
                            break
                        below.append(other)
                    yield block, line[2:], "\n".join(below)
            elif line.startswith("export "):
                before += line + "\n"
            else:
                yield block, before + line, ""


class Typist:
    """Types commands, with a scripted model on loopback in the place of every provider."""

    def __init__(self, place: Place, server: ScriptedServer) -> None:
        self.place = place
        self._server = server

    def type(self, command: str) -> str:
        """Run a command as the pages show it, and return what it prints."""
        last = command.splitlines()[-1]
        if last.startswith("make "):
            target = last.split()[1]
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
            return ""  # not run: it would set up this checkout, or run these tests
        if actual := INSTALL.fullmatch(last):
            assert set(filter(None, (actual[1] or "").split(","))) <= set(EXTRAS)
            return ""  # not run: it needs a package index
        if last.startswith("handrail mcp --http"):
            return self._serve(last, "serving MCP at http://127.0.0.1:")
        if last.startswith("handrail web"):
            return self._serve(last, "Open http://127.0.0.1:")
        command = SERVER.sub(self._server.url, command)
        command = re.sub(r"--resume \S+", f"--resume {self._conversation()}", command)
        done = self._run(command)
        if last.startswith("handrail approve"):  # its options are understood; the rest is tested at a terminal
            wanted = (2, "handrail approve: this command needs a terminal\n")
            assert (done.returncode, done.stderr) == wanted
            return ""
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def _run(self, command: str) -> subprocess.CompletedProcess[str]:
        urls = {"OPENAI_BASE_URL": self._server.url, "ANTHROPIC_BASE_URL": self._server.url}
        keys = {"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none", "HANDRAIL_MODEL": "scripted"}
        talks = "handrail chat" in command and "--list" not in command
        stdin, more = "hello\n" if talks else "", {**urls, **keys}
        if PLAIN.fullmatch(command):  # bash would do nothing but start it
            return self.place.handrail(*shlex.split(command)[1:], stdin=stdin, more=more)
        return self.place.run("bash", "-c", command, stdin=stdin, more=more)

    def _conversation(self) -> str:
        """The id of a conversation about this project; the one on the page is an example."""
        store = Store(str(self.place.folder / "state"))
        return next((stored.id for stored in store.all() if stored.workspace == str(self.place.project)), "none")

    def _serve(self, command: str, started: str) -> str:
        """A server is started, says where it is, and ends when it is told to."""
        command = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:0", command)
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.place.project,
            env=self.place.environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        try:
            assert process.stdout
            collected = []
            for line in process.stdout:
                collected.append(line)
                if started in line:
                    break
            assert started in collected[-1], collected
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT) == 0
        finally:
            process.kill()
            process.communicate()
        return ""


@pytest.fixture
def typist(place: Place) -> Iterator[Typist]:
    with ScriptedServer(in_order([Line("Hello.")] * 50)) as server:
        yield Typist(place, server)


@pytest.mark.parametrize("page", sorted({block.page for block in SHELL} - {"README.md", "cli.md"}))
def test_the_commands_of_a_page_run_in_the_order_given(page: str, typist: Typist) -> None:
    checks = typist.place.handrail("doctor", "--details").stdout
    hidden = re.search(r"^ok\s+namespaces ", checks, re.MULTILINE)
    typed, drafts = 0, not find_obstacle()
    for block, command, below in commands(page):
        if not drafts and command.startswith(("handrail try", "handrail draft")):
            continue
        printed = typist.type(command).replace(str(typist.place.project), "/srv/project")
        if "the sandbox keeps it" in below and not hidden:
            assert printed.startswith("ask: Bash\n"), (block, printed)  # the page shows it with such a sandbox
        elif below:
            assert printed.split() == below.split(), block
        typed += 1
    assert typed


def test_the_commands_of_the_readme_print_what_it_shows(typist: Typist) -> None:
    """Where there can be no drafts, the command that is tried in one and its undo are left out."""
    drafts = not find_obstacle()
    compared = 0
    for block, command, below in commands("README.md"):
        if not drafts and command.startswith(("handrail try", "handrail undo")):
            continue
        printed = typist.type(command).replace(str(typist.place.project), "/srv/project")
        if below:
            assert sorted(printed.split()) == sorted(below.split()), block
            compared += 1
    assert compared == (3 if drafts else 1)
    assert (typist.place.home / ".claude" / "settings.json").exists()


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= 120


def test_the_commands_of_the_page_on_the_command_line_run_in_the_order_given(typist: Typist) -> None:
    printed = {command: typist.type(command) for _, command, _ in commands("cli.md")}
    answers = {command.removeprefix("handrail "): text for command, text in printed.items()}
    (read,) = [text for command, text in answers.items() if command.startswith("call Read")]
    assert "one" in read and "three" not in read
    (write,) = [text for command, text in answers.items() if command.startswith("call Write")]
    assert json.loads(write)["status"] == "ok"
    (edit,) = [text for command, text in answers.items() if command.startswith("call Edit")]
    assert "Goodbye" in edit and any("hello.txt\n1:Goodbye" in text for text in answers.values())
    hello = typist.place.project / "hello.txt"
    assert hello.read_text(encoding="utf-8") == "Hello\n"  # the edit was taken back
    (batch,) = [text for command, text in answers.items() if command.endswith("handrail batch")]
    assert json.loads(batch)["id"] == 1


def test_every_block_of_commands_says_so() -> None:
    """A block without a language would be run by nobody."""
    bare = [
        str(block)
        for block in blocks()
        if block.kind not in KINDS and re.search(r"^(\$ )?(handrail|make|pip) ", block.text, re.M)
    ]
    assert bare == []
    assert {block.kind for block in blocks()} <= KINDS | {""}
