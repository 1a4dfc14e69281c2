"""S0-28, S0-35 and S0-36: apply_patch as the virtual command of `shell`, in the dialect `codex`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from handrail.model import Result
from tests.seeds.golden import put, tree

HELLO = "*** Begin Patch\n*** Add File: hello.txt\n+Hello, world!\n*** End Patch\n"
ADDED = "Success. Updated the following files:\nA hello.txt"


def _shell(session: Session, *command: str, **more: Any) -> Result:
    return session.call("shell", {"command": list(command), **more})


def test_s0_28_shell_applies_a_patch_that_is_given_as_an_argument(codex: Session, tmp_path: Path) -> None:
    """The call of the document, to the letter."""
    result = codex.call(
        "shell",
        '{"command":["apply_patch","*** Begin Patch\\n*** Add File: hello.txt\\n+Hello, world!\\n*** End Patch\\n"]}',
    )
    assert (result.text, result.status) == (ADDED, "ok")
    assert tree(tmp_path) == {"hello.txt": "Hello, world!\n"}


def test_s0_28_no_shell_and_no_command_is_needed(
    codex: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    for command in (["apply_patch", HELLO], ["/no/such/bash", "-lc", f"apply_patch <<'EOF'\n{HELLO}EOF\n"]):
        assert _shell(codex, *command).status == "ok"
        (tmp_path / "hello.txt").unlink()


def test_s0_28_what_the_command_touches_is_known_before_it_runs(codex: Session) -> None:
    prepared = codex.prepare("shell", {"command": ["apply_patch", HELLO]})
    assert [(access.action, access.target) for access in prepared.accesses] == [("write", "hello.txt")]
    assert prepared.preview().endswith("@@ -0,0 +1 @@\n+Hello, world!\n")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["ls"], "a.txt"),
        (["printf", "%s|", "two words", "$HOME", "it's"], "two words|$HOME|it's|"),
        (["bash", "-lc", "cat a.txt && echo $((1 + 1))"], "one\n2"),
        (["/bin/sh", "-c", "exit 3"], "(exit code 3)"),
    ],
)
def test_s0_28_any_other_command_is_run_as_it_is_given(
    codex: Session, tmp_path: Path, command: list[str], expected: str
) -> None:
    put(tmp_path, "a.txt", "one\n")
    result = _shell(codex, *command)
    assert expected in result.text and result.status == "ok"
    assert tree(tmp_path) == {"a.txt": "one\n"}


def test_s0_28_no_command_at_all_is_refused(codex: Session, tmp_path: Path) -> None:
    result = _shell(codex)
    assert result.status == "error" and result.error is not None and result.error.code == "bad_arguments"
    assert tree(tmp_path) == {}


FORMS = {
    "argument": ["apply_patch", "{patch}"],
    "quoted": ["bash", "-lc", "apply_patch <<'EOF'\n{patch}EOF"],
    "quoted, final newline": ["bash", "-lc", "apply_patch <<'EOF'\n{patch}EOF\n"],
    "double quotes": ["bash", "-lc", 'apply_patch <<"EOF"\n{patch}EOF\n'],
    "bare": ["sh", "-c", "apply_patch <<EOF\n{patch}EOF\n"],
    "other name": ["zsh", "-lc", "applypatch <<'PATCH'\n{patch}PATCH\n"],
    "one argument": ["bash", "-lc", "apply_patch '{patch}'"],
}


@pytest.mark.parametrize("form", FORMS)
def test_s0_35_every_form_of_the_call_applies_the_patch(codex: Session, tmp_path: Path, form: str) -> None:
    result = _shell(codex, *(part.replace("{patch}", HELLO) for part in FORMS[form]))
    assert (result.text, result.status) == (ADDED, "ok")
    assert tree(tmp_path) == {"hello.txt": "Hello, world!\n"}


def test_s0_35_leading_tabs_go_if_the_here_document_says_so(codex: Session, tmp_path: Path) -> None:
    script = "apply_patch <<-EOF\n" + "".join(f"\t{line}\n" for line in HELLO.split("\n")[:-1]) + "\tEOF\n"
    assert _shell(codex, "bash", "-lc", script).text == ADDED
    assert tree(tmp_path) == {"hello.txt": "Hello, world!\n"}


@pytest.mark.parametrize("how", ["cd subdir && ", "cd ./subdir && ", "cd 'subdir' && ", "workdir"])
def test_s0_35_a_patch_behind_cd_starts_from_that_directory(codex: Session, tmp_path: Path, how: str) -> None:
    put(tmp_path, "subdir/a.txt", "one\n")
    put(tmp_path, "a.txt", "one\n")
    patch = "*** Begin Patch\n*** Update File: a.txt\n*** Move to: deep/b.txt\n@@\n-one\n+two\n"
    patch += "*** Add File: hello.txt\n+hi\n*** End Patch\n"
    if how == "workdir":
        result = _shell(codex, "apply_patch", patch, workdir="subdir", timeout_ms=1000)
    else:
        result = _shell(codex, "bash", "-lc", f"{how}apply_patch <<'EOF'\n{patch}EOF")
    assert result.text == "Success. Updated the following files:\nA hello.txt\nM deep/b.txt"
    assert [file["path"] for file in result.data["files"]] == ["subdir/deep/b.txt", "subdir/hello.txt"]
    assert tree(tmp_path) == {"a.txt": "one\n", "subdir/deep/b.txt": "two\n", "subdir/hello.txt": "hi\n"}


def test_s0_35_a_directory_that_is_not_there_or_not_ours_stops_the_patch(codex: Session, tmp_path: Path) -> None:
    put(tmp_path, "file", "x\n")
    (tmp_path / "out").symlink_to(tmp_path.parent)
    for directory, code in {
        "none": "not_found",
        "file": "bad_path",
        "..": "outside_workspace",
        "/": "outside_workspace",
    }.items():
        result = _shell(codex, "bash", "-lc", f"cd {directory} && apply_patch <<'EOF'\n{HELLO}EOF")
        assert result.error is not None and result.error.code == code, result.text
    result = _shell(codex, "apply_patch", HELLO, workdir="out")
    assert result.error is not None and result.error.code == "outside_workspace"
    assert not (tmp_path.parent / "hello.txt").exists()
    assert tree(tmp_path) == {"file": "x\n"}


def test_s0_36_quotes_and_spaces_in_paths_are_understood(codex: Session, tmp_path: Path) -> None:
    for name, spelled in {"my dir": "'my dir'", "it's": '"it\'s"', "a b c": "a\\ b' 'c"}.items():
        (tmp_path / name).mkdir()
        result = _shell(codex, "bash", "-lc", f"cd {spelled} && apply_patch <<'EOF'\n{HELLO}EOF\n")
        assert result.text == ADDED
        assert (tmp_path / name / "hello.txt").read_bytes() == b"Hello, world!\n"


def test_s0_36_shell_text_inside_the_patch_is_only_text(codex: Session, tmp_path: Path) -> None:
    lines = ["cat <<EOF", "$(rm -rf .) `ls` $HOME", " EOF", "'\"", "&& || ; | &"]
    patch = "*** Begin Patch\n*** Add File: a.sh\n" + "".join(f"+{line}\n" for line in lines) + "*** End Patch\n"
    result = _shell(codex, "bash", "-lc", f"apply_patch <<'EOF'\n{patch}EOF\n")
    assert result.status == "ok"
    assert tree(tmp_path) == {"a.sh": "\n".join(lines) + "\n"}


@pytest.mark.parametrize(
    "script",
    [
        "echo foo; apply_patch <<'EOF'\n{patch}EOF\n",
        "echo foo && apply_patch <<'EOF'\n{patch}EOF\n",
        "apply_patch <<'EOF' && echo foo\n{patch}EOF\n",
        "apply_patch <<'EOF'\n{patch}EOF\necho foo\n",
        "apply_patch <<'EOF' | tee log\n{patch}EOF\n",
        "apply_patch <<'EOF' > log\n{patch}EOF\n",
        "cd a && cd b && apply_patch <<'EOF'\n{patch}EOF\n",
        "cd a || apply_patch <<'EOF'\n{patch}EOF\n",
        "cd $HOME && apply_patch <<'EOF'\n{patch}EOF\n",
        "cd \"$(pwd)\" && apply_patch <<'EOF'\n{patch}EOF\n",
        "X=1 apply_patch <<'EOF'\n{patch}EOF\n",
        "(apply_patch <<'EOF'\n{patch}EOF\n)",
        "apply_patch <<EOF\n*** Begin Patch\n*** Add File: $NAME\n+x\n*** End Patch\nEOF\n",
        "apply_patch <<EOF\n*** Begin Patch\n*** Add File: a\n+`date`\n*** End Patch\nEOF\n",
        'apply_patch "$PATCH"',
        "touch ran; apply_patch",
        "apply_patch 'x' more",
        "for i in 1; do apply_patch <<'EOF'\n{patch}EOF\ndone",
        'touch ran; bash -c "apply_patch x"',
        "echo x | xargs apply_patch; touch ran",
    ],
)
def test_s0_52_a_patch_in_any_other_form_is_refused_and_nothing_is_run(
    codex: Session, tmp_path: Path, script: str
) -> None:
    result = _shell(codex, "bash", "-lc", script.replace("{patch}", HELLO))
    assert result.error and result.error.code == "patch_not_alone"
    assert "apply_patch <<'EOF'" in result.text and "cd DIR &&" in result.text
    assert tree(tmp_path) == {}


def test_s0_52_the_words_alone_are_no_call(codex: Session, tmp_path: Path) -> None:
    result = _shell(codex, "bash", "-lc", 'apply_patch() { echo "mine: $1"; }; apply_patch x; echo apply_patch')
    assert result.text == "mine: x\napply_patch"


def test_s0_36_an_unfinished_here_document_is_no_patch(codex: Session, tmp_path: Path) -> None:
    result = _shell(codex, "bash", "-lc", f"apply_patch <<'EOF'\n{HELLO}")
    assert "Success" not in result.text and "files" not in result.data
    assert tree(tmp_path) == {}
