"""What a person can do in a chat besides talking: rewind, own commands, pictures, export, instructions."""

from __future__ import annotations

import base64
import io
import threading
from pathlib import Path

import pytest

from handrail import Session
from handrail.agent.messages import ToolCall, ToolResult, Turn
from handrail.agent.prompt import system_prompt
from handrail.agent.providers import APIS, Api
from handrail.cli.chat.attachments import describe_named_files, load_pictures
from handrail.cli.chat.changes import NoChange, undo_calls
from handrail.cli.chat.export import export_conversation
from handrail.cli.chat.own_command import run_own_command
from handrail.cli.chat.rewind import list_points, require_point, rewind
from handrail.pipeline.project import find_nested
from handrail_demo.scripted_server import Line
from tests.agent.conftest import Setting


def write(name: str, text: str) -> tuple[str, dict[str, str]]:
    return "Write", {"file_path": name, "content": text}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_rewind_goes_back_to_before_any_message_with_the_files(stage: Setting, number: int) -> None:
    at = stage([line for n in range(3) for line in (Line("", [write("a.txt", f"v{n}\n")]), Line("ok"))])
    (at.project / "a.txt").write_text("first\n", encoding="utf-8")
    at.agent.session.call("Read", {"file_path": "a.txt"})
    states = ["first\n"]
    for n in range(3):
        assert at.agent.run(f"message {n}").how == "done"
        states.append((at.project / "a.txt").read_text(encoding="utf-8"))
    assert states == ["first\n", "v0\n", "v1\n", "v2\n"]
    points = list_points(at.agent.history.turns)
    assert [point.text for point in points] == ["message 2", "message 1", "message 0"]
    report = rewind(at.agent.session, at.agent.history, require_point(points, str(number)))
    assert len(report.calls) == number and not report.conflicts
    assert (at.project / "a.txt").read_text(encoding="utf-8") == states[3 - number]
    assert [turn.text for turn in at.agent.history.turns if turn.role == "user"] == [
        f"message {n}" for n in range(3 - number)
    ]
    at.agent.session.redo()  # all of it was one undo
    assert (at.project / "a.txt").read_text(encoding="utf-8") == "v2\n"


def test_a_turn_of_the_chat_is_undone_by_its_prompt(stage: Setting) -> None:
    writes = [Line("", [write("a.txt", "1\n"), write("b.txt", "1\n")]), Line("ok"), Line("", [write("c.txt", "2\n")])]
    at = stage([*writes, Line("ok")])
    for n in range(2):
        assert at.agent.run(f"message {n}").how == "done"
    names = []
    for _ in range(2):
        at.agent.session.undo(turn=True)
        names.append(sorted(path.name for path in at.project.iterdir()))
    assert names == [["a.txt", "b.txt"], []]


def test_rewind_leaves_alone_what_somebody_else_changed_since(stage: Setting) -> None:
    at = stage([Line("", [write("a.txt", "model\n"), write("b.txt", "model\n")]), Line("ok")])
    at.agent.run("write")
    (at.project / "a.txt").write_text("person\n", encoding="utf-8")
    report = rewind(at.agent.session, at.agent.history, list_points(at.agent.history.turns)[0])
    assert [Path(conflict.path).name for conflict in report.conflicts] == ["a.txt"]
    assert (at.project / "a.txt").read_text(encoding="utf-8") == "person\n" and not (at.project / "b.txt").exists()


def test_rewind_takes_back_what_commands_have_changed_in_drafts_or_without(stage: Setting) -> None:
    bash = ("Bash", {"command": "echo model > a.txt; rm b.txt"})
    at = stage([Line("", [bash]), Line("ok")], mode="full")
    for name in ("a.txt", "b.txt"):
        (at.project / name).write_text("first\n", encoding="utf-8")
    at.agent.run("change")
    assert (at.project / "a.txt").read_text(encoding="utf-8") == "model\n" and not (at.project / "b.txt").exists()
    rewind(at.agent.session, at.agent.history, list_points(at.agent.history.turns)[0])
    assert {(at.project / name).read_text(encoding="utf-8") for name in ("a.txt", "b.txt")} == {"first\n"}


def test_rewind_undoes_only_later_calls_where_a_server_repeats_its_ids(stage: Setting) -> None:
    at = stage([])
    with at.agent.session as session:
        for n in range(3):
            assert session.call(*write(f"{n}.txt", "x\n"), id="call_0").ok
        assert undo_calls(session, ["call_0", "call_0"]).calls == (3, 2)
    assert [(at.project / f"{n}.txt").exists() for n in range(3)] == [True, False, False]


@pytest.mark.parametrize("word", ["0", "4", "x", "-1"])
def test_a_message_that_there_is_not_is_refused(word: str) -> None:
    points = list_points([Turn("user", "one"), Turn("assistant", "two"), Turn("user", "[Your reply was cut off at")])
    assert len(points) == 1
    with pytest.raises(NoChange, match="from 1 to 1"):
        require_point(points, word)


def test_an_own_command_shows_its_output_and_is_described_for_the_model(tmp_path: Path) -> None:
    ended = run_own_command("echo out; echo err >&2; exit 3", str(tmp_path), threading.Event())
    assert (ended.output, ended.code) == ("out\nerr\n", 3)
    assert "exited with 3" in ended.describe() and ended.describe().endswith("out\nerr\n")


def test_an_own_command_ends_when_it_is_stopped(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    assert run_own_command("sleep 600", str(tmp_path), stop).code != 0


@pytest.mark.parametrize("api", APIS)
def test_a_picture_that_a_message_names_is_sent(stage: Setting, api: Api) -> None:
    image = pytest.importorskip("PIL.Image", reason="pictures need the extra images")
    at = stage([Line("I see.")], api=api)
    raw = io.BytesIO()
    image.new("RGB", (4, 3), "red").save(raw, "PNG")
    (at.project / "shot.png").write_bytes(raw.getvalue())
    (at.project / "notes.txt").write_text("no picture", encoding="utf-8")
    text = "look at @shot.png and @notes.txt"
    pictures = load_pictures(text, str(at.project))
    assert len(pictures) == 1 and len(describe_named_files(text, str(at.project))) == 2
    at.agent.run(text, images=pictures)
    assert base64.b64encode(raw.getvalue()).decode() in str(at.server.requests[0].body)


def test_a_picture_outside_the_project_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "shot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "project" / "link.png").symlink_to(tmp_path / "shot.png")
    assert load_pictures("@../shot.png @link.png", str(tmp_path / "project")) == []


def test_an_export_has_everything_and_commands_no_browser() -> None:
    turns = [
        Turn("user", "hello <script>"),
        Turn("assistant", "I look.", (ToolCall("1", "Read", '{"a": 1}'),)),
        Turn("tools", results=(ToolResult("1", "Read", "```\nfence"),)),
        Turn("assistant", "Done."),
    ]
    text = export_conversation(turns, "m")
    assert all(part in text for part in ("hello <script>", "I look.", '{"a": 1}', "````\n```\nfence\n````", "Done."))
    page = export_conversation(turns, "m", html=True)
    assert "&lt;script&gt;" in page and "<script>" not in page and "Done." in page


def test_global_and_nested_instructions_are_in_the_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDRAIL_CONFIG", str(tmp_path / "config" / "config.toml"))
    project = tmp_path / "project"
    for place in (tmp_path / "config", project, project / "src" / "deep", project / "node_modules", project / ".git"):
        place.mkdir(parents=True, exist_ok=True)
        (place / "AGENTS.md").write_text(f"Rules of {place.name}.\n", encoding="utf-8")
    assert find_nested(str(project)) == ["src/deep/AGENTS.md"]
    with Session(project, journal=None) as session:
        prompt = system_prompt(session)
    assert prompt.index("Rules of config.") < prompt.index("Rules of project.") < prompt.index("- src/deep/AGENTS.md")
    assert "Rules of deep." not in prompt
