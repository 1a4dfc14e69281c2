"""The programs of the course run, also with a real client of a model, and print what its pages show."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from handrail_demo.scripted_server import ScriptedServer, in_order
from tests.docs.pages import ROOT, TIMEOUT, Place, read_blocks
from tests.drafts.machine import find_obstacle

FIGURES = ROOT / "docs" / "images" / "course"
COURSE = ROOT / "examples" / "course"
PROGRAMS = sorted(path.stem for path in COURSE.glob("step*.py"))
NEEDS_DRAFTS = {"step7_commands", "step8_memory"}
SOLUTIONS = [name for name in PROGRAMS if name.endswith("solution")]


PAGES = sorted((ROOT / "docs" / "course").glob("*.md"))
CHINESE = ROOT / "docs" / "zh"


def run_program(place: Place, path: Path, **more: str) -> str:
    """What a program prints, with the random names of temporary folders left out."""
    place_on_path = f"import runpy, sys; sys.path.insert(0, {str(path.parent)!r})"
    code = f"{place_on_path}; runpy.run_path({str(path)!r}, run_name='__main__')"
    printed = place.python(code, None, "", TMPDIR="/tmp", **more)  # its length counts in step 3
    return re.sub(r"/\S*?/tmp\w{8}\b", "/tmp", printed)


def need_drafts(name: str) -> None:
    if name in NEEDS_DRAFTS and (obstacle := find_obstacle()):
        pytest.skip(f"its commands need drafts: {obstacle}")


def test_each_step_has_an_exercise_with_its_solution() -> None:
    steps = [name for name in PROGRAMS if name not in SOLUTIONS]
    assert len(steps) == len(SOLUTIONS) == 8
    for step, solution in zip(steps, SOLUTIONS, strict=True):
        assert step.partition("_")[0] == solution.partition("_")[0]
        assert "# Exercise: " in (COURSE / f"{step}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(COURSE.glob("*.py")), ids=lambda path: path.stem)
def test_a_program_has_at_most_eighty_lines(path: Path) -> None:
    assert path.read_text(encoding="utf-8").count("\n") <= 80


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_the_same_every_time(name: str, place: Place) -> None:
    need_drafts(name)
    first, second = (run_program(place, COURSE / f"{name}.py") for _ in range(2))
    assert first == second != ""


REPLIES = {
    "step1_loop": [("uppercase", {"text": "tea"}), "TEA it is."],
    "step2_one_tool": [("read_file", {"path": "menu.txt"}), "By hand.", ("Read", {"file_path": "menu.txt"}), "2.60"],
    "step4_pages": [("Grep", {"pattern": "ERROR"}), "Request 61802."],
    "step6_search": [("Glob", {"pattern": "**/*.py"}), "In base.py."],
    "step7_commands": [("Write", {"file_path": "list.txt", "content": "one\n"}), "Written."],
}
"""What a model replies over HTTP to the programs that talk to one."""


@contextmanager
def serve_replies(replies: list[object]) -> Iterator[str]:
    """A server of Chat Completions that does not stream, as a real one without `stream`."""
    left = iter(replies)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            assert asked["model"] == "some-model" and asked["tools"]
            one = next(left)
            message: dict[str, object] = {"role": "assistant", "content": one if isinstance(one, str) else None}
            if isinstance(one, tuple):
                function = {"name": one[0], "arguments": json.dumps(one[1])}
                message["tool_calls"] = [{"id": "x1", "type": "function", "function": function}]
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            head = {"id": "r", "object": "chat.completion", "created": 0, "model": "some-model"}
            raw = json.dumps({**head, "choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
    assert next(left, None) is None, "the program did not ask for every reply"


@pytest.mark.parametrize("name", REPLIES)
def test_a_program_talks_to_a_model_over_http(name: str, place: Place) -> None:
    need_drafts(name)
    with serve_replies(list(REPLIES[name])) as url:
        printed = run_program(place, COURSE / f"{name}.py", COURSE_MODEL="some-model", OPENAI_BASE_URL=url)
    assert str(REPLIES[name][-1]) in printed


def test_the_last_step_works_with_a_model_of_the_agent(place: Place) -> None:
    need_drafts("step8_memory")
    script = runpy.run_path(str(COURSE / "step8_memory.py"))["SCRIPT"]
    with ScriptedServer(in_order(script)) as server:
        more = {"COURSE_MODEL": "some-model", "OPENAI_BASE_URL": server.url}
        printed = run_program(place, COURSE / "step8_memory.py", **more)
    assert "done: Line 12345 is bad" in printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_parts_of_the_programs_and_what_they_print(page: Path, place: Place) -> None:
    for block in read_blocks([page]):
        if block.kind == "python":
            assert any(block.text in path.read_text(encoding="utf-8") for path in COURSE.glob("step*.py")), block
        elif block.kind == "console":
            command, _, shown = block.text.partition("\n")
            name = re.fullmatch(r"\$ python (\w+)\.py", command)
            assert name, command
            need_drafts(name[1])
            assert run_program(place, COURSE / f"{name[1]}.py") == shown, block
        else:
            assert block.kind == "sh" and page.stem == "index"  # typed by the test below


def test_every_program_is_on_a_page() -> None:
    shown = {name for block in read_blocks(PAGES) for name in re.findall(r"^\$ python (\w+)\.py$", block.text, re.M)}
    assert shown == set(PROGRAMS)


def test_the_words_that_install_are_those_of_the_other_pages() -> None:
    (block,) = [one for one in read_blocks(PAGES) if one.kind == "sh"]
    assert block.text == "python3 -m venv .venv\n.venv/bin/pip install .\n"  # tests/install types them


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_chinese_page_has_the_same_programs_and_commands(page: Path) -> None:
    chinese = CHINESE / "course" / page.name
    texts = ([(block.kind, block.text) for block in read_blocks([path])] for path in (page, chinese))
    assert next(texts) == next(texts)
    text = chinese.read_text(encoding="utf-8")
    assert len(re.findall(r"[\u4e00-\u9fff]", text)) > 150
    english, own = (re.findall(r"\]\(([^)#]+)", path.read_text(encoding="utf-8")) for path in (page, chinese))
    assert [Path(link).name.replace(".zh.svg", ".svg") for link in own] == [Path(link).name for link in english]


@pytest.mark.parametrize("path", [*CHINESE.rglob("*.md"), *FIGURES.glob("*.zh.svg")], ids=lambda path: path.name)
def test_chinese_has_chinese_punctuation(path: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", "", path.read_text(encoding="utf-8"), flags=re.S)
    assert re.findall(r"[\u4e00-\u9fff][,:;?!()].*|.*[,:;?!()][\u4e00-\u9fff].*", text) == []


def test_the_chinese_readme_has_the_commands_and_figures_of_the_english_one() -> None:
    pages = (ROOT / "README.md", CHINESE / "README.md")
    english, chinese = ([(block.kind, block.text) for block in read_blocks([page])] for page in pages)
    assert english == chinese
    tables = [re.findall(r"^\| [A-Z].*$", page.read_text(encoding="utf-8"), re.M) for page in pages]
    assert tables[0] == tables[1] != []


def test_the_figures_are_drawn_byte_for_byte_as_they_are(tmp_path: Path) -> None:
    words = [sys.executable, str(ROOT / "docs" / "images" / "figures.py"), str(tmp_path)]
    subprocess.run(words, check=True, timeout=TIMEOUT)
    drawn, stored = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in (tmp_path, FIGURES))
    assert drawn == stored
    assert len(drawn) == 10


def test_the_programs_have_types() -> None:
    programs = map(str, sorted(COURSE.glob("*.py")))
    words = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *programs]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=10 * TIMEOUT, check=False)
    assert (done.stdout, done.stderr) == ("", "")
