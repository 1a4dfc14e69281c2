"""Every block of Python in README and docs has types, runs, and does what the page says."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import handrail
from handrail_demo.scripted_server import Line, ScriptedServer, in_order
from tests.docs.pages import PAGES, ROOT, Block, Place, blocks_of
from tests.drafts.machine import require_drafts

PYTHON = blocks_of("python", "py")
ELSEWHERE = {
    "integrations.md": "tests/integrations",
    "dialects.md": "tests/test_dialect_docs.py",
    "fleet.md": "tests/remote/test_at.py",
}
"""Pages whose blocks are run by other tests, next to what they are about."""


def only(page: str, *parts: str) -> str:
    """The one block of a page that contains all these texts."""
    (block,) = [one for one in PYTHON if one.page == page and all(part in one.text for part in parts)]
    return block.text


def test_every_block_of_python_passes_mypy_strict(tmp_path: Path) -> None:
    """One run for all blocks; it shares the cache of `make check`, so that it need not read every package again."""
    for block in PYTHON:
        name = f"{block.page.removesuffix('.md').lower()}_line_{block.line}.py"
        (tmp_path / name).write_text(block.text, encoding="utf-8")
    assert len(list(tmp_path.iterdir())) == len(PYTHON) >= 19
    # A block with a mistake shows that mistakes are found.
    (tmp_path / "wrong.py").write_text("from handrail import Session\n\nSession('.', mode='yolo')\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *map(str, sorted(tmp_path.iterdir()))],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=900,
        check=False,
    )
    output = [line for line in done.stdout.splitlines() if "wrong.py" not in line]
    assert (output, done.stderr) == ([], "")
    assert 'wrong.py:3: error: Argument "mode" to "Session" has incompatible type' in done.stdout


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_a_block_uses_public_names_only(block: Block) -> None:
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "handrail":
            if node.module == "handrail":
                assert {name.name for name in node.names} <= set(handrail.__all__)
            else:
                assert re.fullmatch(r"handrail\.(?:integrations|agent)\.[a-z_]+", node.module or ""), node.module
        assert not (isinstance(node, ast.Import) and any(name.name.startswith("handrail") for name in node.names))


def test_a_class_that_the_pages_name_can_be_imported() -> None:
    """`Session(root, approve=...)` in a sentence is held to the same rule as a block."""
    known = set(handrail.__all__) | {
        name
        for path in (ROOT / "src" / "handrail" / "integrations").glob("*.py")
        for name in vars(import_module(f"handrail.integrations.{path.stem}"))
    }
    foreign = {"ClaudeSDKClient"}  # of the Claude Agent SDK
    named: set[str] = set()
    for page in PAGES:
        for span in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", page.read_text(encoding="utf-8")):
            if "=" in span or span.endswith(")"):
                try:
                    tree = ast.parse(span, mode="eval")
                except SyntaxError:
                    continue
                calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
                named |= {
                    call.func.id for call in calls if isinstance(call.func, ast.Name) and call.func.id[0].isupper()
                }
    rules = {"Read", "Edit", "Delete", "Bash", "Network", "Call"}
    assert {"Session", "AllowAll"} <= named
    assert named - known - rules - foreign == set()


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_every_block_is_run_by_a_test(block: Block) -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    where = ELSEWHERE.get(block.page)
    if where is None:
        marks = re.findall(rf'only\("{re.escape(block.page)}", "(.+?)"', source)
        assert any(mark in block.text for mark in marks), f"no test runs {block}"
    elif block.page == "integrations.md" and block.kind == "py":
        tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / where).glob("test_*.py"))
        assert re.search(rf'\b(?:run_example|example)\("{re.escape(block.heading)}"', tests), f"no test runs {block}"
    # Else the tests that are named there take every block with this fence.


def test_the_first_example_of_the_readme_reads_writes_and_undoes(place: Place) -> None:
    place.write("README.md", "# A project\n")
    printed = place.python(only("library.md", "session.undo()"), cwd=place.folder)
    assert "# A project" in printed and "ok ()" in printed
    assert "hello.txt" in printed and "deleted" in printed
    assert not (place.project / "hello.txt").exists()


CHECKED = """
import os
home = os.path.abspath("path/to/project")
def status(tool, **arguments):
    result = session.call(tool, arguments)
    return result.status, result.text
assert status("Read", file_path=f"{home}/README.md")[0] == "ok"
assert status("Read", file_path=os.path.abspath("path/to/library/a.txt"))[0] == "ok"
assert status("Write", file_path=os.path.abspath("path/to/library/b.txt"), content="x")[0] != "ok"
assert status("Read", file_path=f"{home}/.env")[0] == "denied"
assert status("Write", file_path=f"{home}/migrations/1.sql", content="x")[0] == "denied"
assert status("Bash", command="rm -rf lib")[0] in ("denied", "partial")  # the second: it ran in a draft
assert status("Bash", command="rm lib/a.txt") [0] in ("denied", "partial")
assert "files are not deleted here" in status("Bash", command="rm lib/a.txt")[1]
assert status("Write", file_path=f"{home}/new.txt", content="new\\n")[0] == "ok"
assert os.path.exists("path/to/project/lib/a.txt")
session.undo()
assert not os.path.exists("path/to/project/new.txt")
session.close()
"""


def test_the_second_example_of_the_readme_asks_and_refuses_what_it_says(place: Place) -> None:
    place.write("README.md", "# A project\n")
    place.write("lib/a.txt", "kept\n")
    place.write(".env", "KEY=secret\n")
    (place.project.parent / "library" / "a.txt").write_text("a\n", encoding="utf-8")
    printed = place.python(only("library.md", "def approve") + CHECKED, cwd=place.folder)
    assert "+new" in printed and "lib/a.txt" in printed and "migrations" not in printed


DOCS_ONLY = """
def status(tool, **arguments):
    return session.call(tool, arguments).status
assert status("Read", file_path="README.md") == "ok"
assert status("Write", file_path="docs/a.md", content="a\\n") == "ok"
assert status("Write", file_path="a.md", content="a\\n") == "denied"
assert status("Write", file_path="docs/../a.md", content="a\\n") == "denied"
assert status("Read", file_path=".env") == "denied"
for command in ("rm -rf lib", "cat .env", "ls", "echo x > docs/b.md", "curl http://127.0.0.1:1/"):
    assert status("Bash", command=command) == "denied", command
found = session.call("Grep", {"pattern": "secret"})
assert "KEY" not in found.text, found.text
session.close()
"""


def test_the_policy_of_the_handbook_refuses_all_that_it_does_not_name(place: Place) -> None:
    place.write("README.md", "# A project\n")
    place.write("lib/a.txt", "kept\n")
    place.write(".env", "KEY=secret\n")
    place.write("docs/index.md", "a\n")
    place.python(only("policy-reference.md", "class DocsOnly") + DOCS_ONLY, cwd=place.folder)
    assert (place.project / "lib" / "a.txt").exists() and not (place.project / "a.md").exists()


def test_the_draft_of_a_program_is_kept_and_taken_back(place: Place) -> None:
    require_drafts()
    printed = place.python(only("drafts.md", "session.draft()"))
    assert "created second.txt (+1)" in printed and "deleted" in printed
    assert not (place.project / "second.txt").exists()


EDIT = ("Edit", {"file_path": "hello.txt", "old_string": "Hello", "new_string": "Goodbye"})
SCRIPT = [Line("I look.", [("Read", {"file_path": "hello.txt"})]), Line("", [EDIT]), Line("It is done.")]


@pytest.mark.parametrize(("answer", "left"), [("y", "Goodbye\n"), ("n", "Hello\n")])
def test_the_agent_of_the_handbook_works_and_asks(place: Place, answer: str, left: str) -> None:
    hello = place.write("hello.txt", "Hello\n")
    with ScriptedServer(in_order(SCRIPT)) as server:
        printed = place.python(only("agent.md", "Agent("), stdin=f"{answer}\n", OPENAI_BASE_URL=server.url)
    assert printed.endswith("done It is done.\n")
    assert "+Goodbye" in printed and "CallStarted" in printed and "CallFinished" in printed
    assert hello.read_text(encoding="utf-8") == left


def test_the_example_of_the_package_itself_runs(place: Place) -> None:
    place.write("README.md", "# A project\n")
    lines = (handrail.__doc__ or "").splitlines()
    code = "\n".join(line[4:] for line in lines if line.startswith("    ") or not line)
    compile(code, "handrail", "exec")
    assert "# A project" in place.python(code + "\nsession.close()\n", cwd=place.folder)
    assert os.listdir(place.project) == ["README.md"]
