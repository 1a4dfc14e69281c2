"""One verdict for one effect, whichever tool causes it: each tool against the same change by a command in a draft."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from handrail import Session, Setup, parse_rules
from handrail.model import Question
from tests.sizes import spread

Make = Callable[..., Session]
Calls = dict[str, dict[str, Any]]
PLACES = {
    "plain": "a.txt",
    "directory": "sub/b.txt",
    "protected": ".github/workflows/ci.yml",
    "hook": ".git/hooks/x",
    "settings of git": ".git/config",
    "message of git": ".git/COMMIT_EDITMSG",
    "attributes": ".git/info/attributes",
    "excluded": ".git/info/exclude",
    "todo of git": ".git/rebase-merge/git-rebase-todo",
    "settings of an agent": ".claude/settings.json",
    "settings of an editor": ".vscode/tasks.json",
    "dependency": "node_modules/x/index.js",
    "ignored": "build/out.txt",
    "rules": "handrail.toml",
}
ONE_LINE = dict.fromkeys(PLACES.values(), "# one\n")
MODES = ("read-only", "ask", "accept-edits", "full")


def _patch(*lines: str) -> dict[str, Any]:
    return {"patch": "\n".join(("*** Begin Patch", *lines, "*** End Patch", ""))}


def _change(path: str) -> Calls:
    texts = {"old_string": "one", "new_string": "two"}
    return {
        "Write": {"file_path": path, "content": "# two\n"},
        "Edit": {"file_path": path, **texts},
        "MultiEdit": {"file_path": path, "edits": [texts]},
        "ApplyPatch": _patch(f"*** Update File: {path}", "@@", "-# one", "+# two"),
        "Bash": {"command": f"sed -i s/one/two/ {path}"},
    }


def _create(path: str) -> Calls:
    new = f"{path}.new.yml"
    return {
        "Write": {"file_path": new, "content": "# one\n"},
        "ApplyPatch": _patch(f"*** Add File: {new}", "+# one"),
        "Bash": {"command": f"echo '# one' > {new}"},
    }


def _delete(path: str) -> Calls:
    return {
        "Trash": {"path": path},
        "ApplyPatch": _patch(f"*** Delete File: {path}"),
        "Bash": {"command": f"rm {path}"},
    }


def _move(path: str) -> Calls:
    return {
        "Move": {"source_path": path, "target_path": "moved.txt"},
        "ApplyPatch": _patch(f"*** Update File: {path}", "*** Move to: moved.txt"),
        "Bash": {"command": f"mv {path} moved.txt"},
    }


def _delete_directory(path: str) -> Calls:
    above = path.rpartition("/")[0] or "empty"
    return {"Trash": {"path": above}, "Bash": {"command": f"rm -r {above}"}}


def _move_directory(path: str) -> Calls:
    above = path.rpartition("/")[0] or "empty"
    return {"Move": {"source_path": above, "target_path": "there"}, "Bash": {"command": f"mv {above} there"}}


EFFECTS = (_change, _create, _delete, _move, _delete_directory, _move_directory)


def _judge(
    make: Make, top: Path, mode: str, tool: str, arguments: dict[str, Any], files: Mapping[str, str] = ONE_LINE
) -> str:
    """What becomes of a call in a workspace with these files: allowed, asked about or denied."""
    top.mkdir()
    (top / "empty").mkdir()
    subprocess.run(["git", "init", "-q", top], check=True)
    (top / ".gitignore").write_text("build/\n", encoding="utf-8")
    for path, text in files.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text, encoding="utf-8")
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    session = make(top, mode=mode, approve=approve, durable=False)
    for path in files:
        session.call("Read", {"file_path": path})
    if tool == "Bash" and mode != "read-only" and not session.services.command_host().drafts.workspace:
        pytest.skip("no drafts here: a command is judged by its words")
    result = session.call(tool, arguments)
    assert result.ok or result.status == "denied", result.text
    return "deny" if not result.ok else "ask" if asked else "allow"


@pytest.mark.parametrize(("effect", "place", "mode"), spread([*product(EFFECTS, PLACES, MODES)], 80))
def test_every_tool_gets_the_verdict_of_the_same_change_by_a_command(
    make_session: Make, tmp_path: Path, effect: Callable[[str], Calls], place: str, mode: str
) -> None:
    calls = effect(PLACES[place])
    verdicts = {name: _judge(make_session, tmp_path / name, mode, name, calls[name]) for name in calls}
    assert verdicts == dict.fromkeys(verdicts, verdicts["Bash"])


CONFIG = "[core]\n\tbare = false\n\thooksPath = .none\n"
GIT_FILES = {
    "a setting that runs nothing": (".git/config", CONFIG, "false", "true", "allow"),
    "a new remote": (".git/config", CONFIG, "[core]", '[remote "o"]\n\turl = ../o\n[core]', "allow"),
    "a monitor": (".git/config", CONFIG, "bare = false", "fsmonitor = ./x", "ask"),
    "a protection taken away": (".git/config", CONFIG, "hooksPath", "#", "ask"),
    "an address that runs a program": (
        ".git/config",
        '[remote "o"]\n\turl = a\n',
        "url = a",
        "url = ext::sh -c x",
        "ask",
    ),
    "settings of a work tree": (".git/config.worktree", "[core]\n\tbare = false\n", "bare = false", "pager = x", "ask"),
    "a step that runs nothing": (".git/rebase-merge/git-rebase-todo", "pick 1234567\n", "pick", "drop", "allow"),
    "a step with a command": (".git/rebase-merge/git-rebase-todo", "pick 1234567\n", "pick", "exec", "ask"),
    "a way to another repository": (".git/commondir", "..\n", "..", "../x", "ask"),
    "a branch": (".git/refs/heads/x", "0" * 40 + "\n", "0", "1", "allow"),
    "a filter": (".git/info/attributes", "*.c text\n", "text", "filter=x", "ask"),
}


@pytest.mark.parametrize("kind", GIT_FILES)
def test_the_contents_of_gits_own_files_decide_whichever_tool_writes_them(
    make_session: Make, tmp_path: Path, kind: str
) -> None:
    path, before, old, new, expected = GIT_FILES[kind]
    after = before.replace(old, new)
    texts = {"old_string": old, "new_string": new, "replace_all": True}
    lines = [f"{sign}{line}" for sign, text in (("-", before), ("+", after)) for line in text.splitlines()]
    calls: Calls = {
        "Write": {"file_path": path, "content": after},
        "Edit": {"file_path": path, **texts},
        "MultiEdit": {"file_path": path, "edits": [texts]},
        "ApplyPatch": _patch(f"*** Update File: {path}", "@@", *lines),
        "Bash": {"command": f"cp new.txt {path}"},
    }
    files = {"new.txt": after, path: before}
    verdicts = {name: _judge(make_session, tmp_path / name, "accept-edits", name, calls[name], files) for name in calls}
    assert verdicts == dict.fromkeys(verdicts, expected)


@pytest.mark.parametrize("kind", [kind for kind, (path, *_) in GIT_FILES.items() if path != ".git/config"])
def test_a_new_file_of_git_gets_the_verdict_of_its_contents(make_session: Make, tmp_path: Path, kind: str) -> None:
    path, before, old, new, expected = GIT_FILES[kind]
    after = before.replace(old, new)
    calls: Calls = {
        "Write": {"file_path": path, "content": after},
        "ApplyPatch": _patch(f"*** Add File: {path}", *(f"+{line}" for line in after.splitlines())),
        "Move": {"source_path": "new.txt", "target_path": path},
        "Bash": {"command": f"mkdir -p {path.rpartition('/')[0]}; mv new.txt {path}"},
    }
    verdicts = {
        name: _judge(make_session, tmp_path / name, "accept-edits", name, calls[name], {"new.txt": after})
        for name in calls
    }
    assert verdicts == dict.fromkeys(verdicts, expected)


REPOSITORY = {"sub/.git/HEAD": "ref: refs/heads/main\n", "sub/.git/objects/x": "x\n", "sub/.git/refs/x": "x\n"}
TREES = {
    "a repository": (REPOSITORY, "allow"),
    "with harmless settings": (REPOSITORY | {"sub/.git/config": "[core]\n\tbare = false\n"}, "allow"),
    "with a monitor": (REPOSITORY | {"sub/.git/config": "[core]\n\tfsmonitor = ./x\n"}, "ask"),
    "with a hook": (REPOSITORY | {"sub/.git/hooks/pre-commit": "x\n"}, "ask"),
    "with a sample": (REPOSITORY | {"sub/.git/hooks/pre-commit.sample": "x\n"}, "allow"),
}


@pytest.mark.parametrize("kind", TREES)
def test_a_repository_is_moved_with_the_verdict_of_what_is_in_it(make_session: Make, tmp_path: Path, kind: str) -> None:
    files, expected = TREES[kind]
    move, bash = {"source_path": "sub", "target_path": "there"}, {"command": "mv sub there"}
    verdicts = {
        name: _judge(make_session, tmp_path / name, "accept-edits", name, arguments, files)
        for name, arguments in (("Move", move), ("Bash", bash))
    }
    assert verdicts == dict.fromkeys(verdicts, expected)


@pytest.mark.parametrize("mode", ["accept-edits", "full"])
def test_one_patch_that_makes_a_directory_a_repository_is_asked_about(
    make_session: Make, tmp_path: Path, mode: str
) -> None:
    new = {
        "x/HEAD": "ref: refs/heads/main",
        "x/objects/x": "x",
        "x/refs/x": "x",
        "x/config": "[core]\n+\tfsmonitor = ./x",
    }
    patch = _patch(*(line for path, text in new.items() for line in (f"*** Add File: {path}", f"+{text}")))
    assert _judge(make_session, tmp_path / "patch", mode, "ApplyPatch", patch, {}) == "ask"
    lines = (f"mkdir -p {path.rpartition('/')[0]}; printf '{text}\n' > {path}" for path, text in new.items())
    command = {"command": "\n".join(lines).replace("+\t", "\t")}
    assert _judge(make_session, tmp_path / "bash", mode, "Bash", command, {}) == "ask"


HOOK = '[[hooks]]\nbefore = "*"\nrun = "sed -i s/user/alias/ .git/config"\n'


def test_a_change_is_judged_again_if_its_file_has_changed_since(make_session: Make, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".git/config").write_text("[user]\n# a\n", encoding="utf-8")
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return False

    session = make_session(tmp_path, mode="accept-edits", setup=Setup(rules=[parse_rules(HOOK)]), approve=approve)
    edit = {"file_path": ".git/config", "old_string": "# a", "new_string": "\tname = !x"}
    assert session.call("Edit", edit).status == "denied"
    assert [question.verdict.rule for question in asked] == ["protected"]
