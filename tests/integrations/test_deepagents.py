"""deepagents: the backend by itself, and real deep agents with a scripted chat model on real files."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import StateBackend
from deepagents.backends.protocol import SandboxBackendProtocol
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from PIL import Image

from handrail import Session, Settings
from handrail.integrations.deepagents import WORDS, HandrailBackend, HandrailSandbox, backend, open_session
from handrail.journal import NoJournal, Record
from tests.integrations.examples import run_example
from tests.integrations.scripted import message
from tests.patience import until_it_got_far_enough

Open = Callable[..., HandrailSandbox]


class Scripted(GenericFakeChatModel):
    """A chat model that says what it was told to say."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Scripted:
        return self


class Recorded(NoJournal):
    """Keeps what calls came to, in memory."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def record(self, record: Record) -> str:
        self.records.append(record)
        return super().record(record)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    collected: list[Session] = []

    def make(**options: Any) -> HandrailSandbox:
        collected.append(open_session(tmp_path, settings=Settings(raise_bugs=True), **options))
        return HandrailSandbox(collected[-1])

    yield make
    for session in collected:
        session.close()


def wants(name: str, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call-{name}"}])


def run(on: Any, *replies: AIMessage) -> list[ToolMessage]:
    """What the tools of a deep agent answered."""
    agent = create_deep_agent(Scripted(messages=iter([*replies, AIMessage("done")])), backend=on)
    state = agent.invoke({"messages": [HumanMessage("go")]})
    assert state["messages"][-1].content == "done"
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


def test_the_file_tools_of_a_deep_agent_go_through_the_session(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"one\r\ntwo\r\n")
    journal = Recorded()
    files = opened(journal=journal)
    actual = run(
        files,
        wants("ls", path="/"),
        wants("read_file", file_path="/a.py"),
        wants("edit_file", file_path="/a.py", old_string="one\ntwo", new_string="one\n2"),
        wants("write_file", file_path="src/b.py", content="new\n"),
        wants("glob", pattern="*.py"),
        wants("grep", pattern="new", output_mode="content"),
    )
    assert [message.status for message in actual] == ["success"] * 6
    assert "/a.py" in actual[0].content
    assert "one" in actual[1].content and "two" in actual[1].content
    assert "1 instance" in actual[2].content
    assert "/src/b.py" in actual[4].content and "/a.py" in actual[4].content
    assert "/src/b.py" in actual[5].content
    assert (tmp_path / "a.py").read_bytes() == b"one\r\n2\r\n"
    assert (tmp_path / "src" / "b.py").read_bytes() == b"new\n"
    called = [record.call.tool for record in journal.records]
    assert called == ["ls", "read_file", "edit_file", "write_file", "glob", "grep"]
    assert [len(record.changes) for record in journal.records] == [0, 0, 1, 1, 0, 0]


def test_an_async_deep_agent_runs_commands_and_learns_their_exit_code(opened: Open, tmp_path: Path) -> None:
    replies = [wants("execute", command="echo hi > made; exit 3"), AIMessage("done")]
    agent = create_deep_agent(Scripted(messages=iter(replies)), backend=opened())
    state = asyncio.run(agent.ainvoke({"messages": [HumanMessage("go")]}))
    answer = next(message for message in state["messages"] if isinstance(message, ToolMessage))
    assert answer.artifact["exit_code"] == 3
    assert (tmp_path / "made").read_text(encoding="utf-8") == "hi\n"


def test_a_refusal_reaches_the_model_as_an_error_and_nothing_is_changed(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("unseen\n", encoding="utf-8")
    (tmp_path.parent / "secret.txt").write_text("s", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path.parent / "secret.txt")
    actual = run(
        opened(),
        wants("write_file", file_path="/a.txt", content="gone"),
        wants("read_file", file_path="/link"),
        wants("execute", command="sudo ls"),
        wants("delete", file_path="/a.txt"),
    )
    assert [message.status for message in actual] == ["error", "error", "success", "error"]
    assert "read_file first" in actual[0].content
    assert "escapes workspace" in actual[1].content
    assert actual[2].artifact["exit_code"] == 126
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "unseen\n"


def test_what_is_too_long_for_the_model_is_offloaded_to_the_state_and_not_into_the_workspace(
    opened: Open, tmp_path: Path
) -> None:
    (tmp_path / "long.txt").write_text("a line of a long file that is searched\n" * 5000, encoding="utf-8")
    session = opened()._session
    actual = run(
        backend(session),
        wants("grep", pattern="searched", output_mode="content"),
        wants("execute", command="head -c 200000 /dev/zero | tr '\\0' x"),
        wants("read_file", file_path="/large_tool_results/call-execute", limit=1),
    )
    assert "/large_tool_results/" in actual[1].content
    assert actual[2].content.count("x") > 1000
    assert [path.name for path in tmp_path.iterdir()] == ["long.txt"]


def test_an_edit_needs_no_reading_before_it_but_an_overwrite_does(opened: Open, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n", encoding="utf-8")
    files = opened()
    assert "read_file first" in (files.write("/a.txt", "x").error or "")
    assert files.edit("/a.txt", "two", "2").occurrences == 1
    assert path.read_text(encoding="utf-8") == "one\n2\n"
    assert files.edit("/a.txt", "absent", "x").error == "Error: Text not found in a.txt"


def test_an_edit_of_a_file_that_changed_since_it_was_read_says_so(opened: Open, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n", encoding="utf-8")
    files = opened()
    files.read("/a.txt")
    path.write_text("one\nthree\n", encoding="utf-8")
    assert "not what you read any more" in (files.edit("/a.txt", "two", "2").error or "")
    assert path.read_text(encoding="utf-8") == "one\nthree\n"


def test_a_read_gives_the_lines_as_they_are_and_where_to_go_on(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n\tb\\n\nc\nd\n", encoding="utf-8")
    actual = opened().read("/a.txt", 1, 2)
    assert actual.file_data == {"content": "\tb\\n\nc", "encoding": "utf-8"}
    assert (actual.start_line, actual.end_line, actual.total_lines, actual.next_offset) == (2, 3, 4, 3)
    assert opened().read("/a.txt", -5, 1).start_line == 1
    assert opened().read("/a.txt", 0, 0).no_lines_requested
    assert "beyond the end" in (opened().read("/a.txt", 9).error or "")


def test_a_line_of_any_usual_length_is_read_whole(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 150_000 + "\n", encoding="utf-8")
    data = opened().read("/a.txt").file_data
    assert data and data["content"] == "x" * 150_000


def test_an_empty_file_is_told_apart_from_a_missing_one(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "e.txt").write_bytes(b"")
    assert opened().read("/e.txt").file_data == {"content": "", "encoding": "utf-8"}
    assert opened().read("/f.txt").error == "File 'f.txt' not found. Similar: e.txt"


def test_what_is_not_text_comes_as_base64(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "bin.dat").write_bytes(b"\0\1\2")
    (tmp_path / "no.pdf").write_bytes(b"text under a wrong name")
    Image.new("RGB", (3000, 20), "red").save(tmp_path / "p.png")
    files = opened()
    for name in ("bin.dat", "no.pdf"):
        data = files.read(f"/{name}").file_data
        assert data and data["encoding"] == "base64"
        assert base64.b64decode(data["content"]) == (tmp_path / name).read_bytes()
    data = files.read("/p.png").file_data
    assert data and base64.b64decode(data["content"]).startswith(b"\x89PNG")
    assert len(base64.b64decode(data["content"])) != (tmp_path / "p.png").stat().st_size  # brought to size


def test_a_bare_glob_looks_at_every_depth_and_a_slash_means_the_directory_searched(
    opened: Open, tmp_path: Path
) -> None:
    (tmp_path / "src" / "in").mkdir(parents=True)
    for name in ("a.py", "src/b.py", "src/in/c.py", "src/d.txt"):
        (tmp_path / name).write_text("x\n", encoding="utf-8")
    files = opened()

    def paths(pattern: str, path: str | None = None) -> set[str]:
        actual = [one["path"] for one in files.glob(pattern, path).matches or []]
        assert all(Path(one).exists() for one in actual)  # as a command needs them
        return {one.removeprefix(str(tmp_path)) for one in actual}

    assert paths("*.py") == {"/a.py", "/src/b.py", "/src/in/c.py"}
    assert paths("/*.py") == {"/a.py"}
    assert paths("/*.py", "/src") == {"/src/b.py"}
    assert paths("src/**/*.py") == {"/src/b.py", "/src/in/c.py"}
    assert files.glob("../*").error


def test_a_search_is_for_plain_text_and_says_when_there_is_more(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a.b\naxb\na.b\n", encoding="utf-8")
    files = opened()
    actual = files.grep("a.b", glob="*.txt")
    assert (
        actual.matches == [{"path": str(tmp_path / "a.txt"), "line": n, "text": "a.b"} for n in (1, 3)]
        and not actual.truncated
    )
    cut = files.grep("a.b", max_count=1)
    assert len(cut.matches or []) == 1 and cut.truncated
    assert not files.grep("a.b", max_count=2).truncated


def test_real_paths_as_commands_show_them_are_understood(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hi\n", encoding="utf-8")
    files = opened()
    shown = files.execute("realpath a.txt").output.strip()
    data = files.read(shown).file_data
    assert data and data["content"] == "hi"


def test_output_that_is_cut_names_a_file_that_can_be_read(opened: Open) -> None:
    files = opened()
    whole = files.execute("seq 1 100000")  # the framework itself keeps long output out of the conversation
    assert not whole.truncated and whole.output.endswith("99999\n100000\n")
    answer = files.execute("seq 1 700000")
    assert answer.truncated and answer.exit_code == 0
    name = answer.output.rsplit(" ", 1)[-1].rstrip(")")
    data = files.read(name, 49_999, 1).file_data
    assert data and data["content"] == "50000"


def test_a_command_that_takes_too_long_is_ended(opened: Open) -> None:
    answer, seconds = until_it_got_far_enough(
        lambda seconds: opened().execute("echo begun; sleep 600", timeout=max(1, int(seconds))),
        lambda answer: "begun" in answer.output,
    )
    assert "begun" in answer.output and f"{max(1, int(seconds))} s" in answer.output
    assert answer.exit_code != 0


def test_a_file_is_deleted_once_it_was_read_and_a_directory_never(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.txt").write_text("x\n", encoding="utf-8")
    files = opened(mode="full")
    assert files.delete("/d").error
    assert files.delete("/d/a.txt").error
    files.read("/d/a.txt")
    assert files.delete("/d/a.txt").path == "/d/a.txt"
    assert not (tmp_path / "d" / "a.txt").exists()
    assert "line break" in (files.delete("/a\nb").error or "")


def test_files_are_uploaded_and_downloaded_as_bytes(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "bin.dat").write_bytes(b"\xff\0")
    files = opened()
    assert [one.error is None for one in files.upload_files([("/u.txt", b"hi\n"), ("/v", b"\xff\0")])] == [True, True]
    assert (tmp_path / "u.txt").read_bytes() == b"hi\n" and (tmp_path / "v").read_bytes() == b"\xff\0"
    assert [one.error for one in files.upload_files([("/v", b"\xfe"), ("v", b"")])] == [None, "invalid_path"]
    assert (tmp_path / "v").read_bytes() == b"\xfe"
    assert files.write("/v", "text").error  # what the host uploaded, the model has not read
    got = files.download_files(["/u.txt", "/bin.dat", "/none", "/"])
    assert [one.content for one in got] == [b"hi\n", b"\xff\0", None, None]
    assert [one.error for one in got] == [None, None, "file_not_found", "is_directory"]


def test_rules_hold_for_the_backend_too(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n", encoding="utf-8")
    files = opened(mode="read-only")
    assert files.read("/a.txt").file_data
    assert files.edit("/a.txt", "x", "y").error
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "x\n"


def test_a_session_of_another_dialect_is_refused(tmp_path: Path) -> None:
    with Session(tmp_path) as session, pytest.raises(ValueError, match="open_session"):
        HandrailBackend(session)


def test_without_a_shell_the_backend_runs_nothing(tmp_path: Path) -> None:
    with open_session(tmp_path) as session:
        routed = backend(session, shell=False)
        assert session.dialect.name == WORDS
        assert not isinstance(routed.default, SandboxBackendProtocol)
        assert isinstance(routed.routes["/conversation_history/"], StateBackend)


def test_what_ignore_files_name_is_left_out_of_searches_but_listed(opened: Open, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("built/\n", encoding="utf-8")
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / "b.py").write_text("x\n", encoding="utf-8")
    files = opened()
    assert files.glob("*.py").matches == [] and files.grep("x").matches == []
    assert [one["path"] for one in files.ls("/").entries or []] == [
        str(tmp_path / name) for name in ("built", ".gitignore")
    ]


def test_the_example_of_the_documentation_runs(tmp_path: Path) -> None:
    path = tmp_path / "hello.txt"
    path.write_text("Hello\n", encoding="utf-8")
    edit = {"file_path": "/hello.txt", "old_string": "Hello", "new_string": "Goodbye"}
    script = [
        message(("read_file", {"file_path": "/hello.txt"}), ids="a"),
        message(("edit_file", edit), ids="b"),
        message(text="It is done."),
    ]
    assert run_example("deepagents", tmp_path, *script) == "It is done.\n"
    assert path.read_text(encoding="utf-8") == "Goodbye\n"
