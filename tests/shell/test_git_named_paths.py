"""Hooks and settings in the workspace that the repository's settings name are protected like those in `.git`."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest

from handrail import Session, Settings
from handrail.shell.git.named_paths import list_named_by_git
from handrail.shell.sandbox import Mode as Sandbox
from tests.sizes import spread

PLACES = ("{}", "./{}", "sub/../{}", "$PWD/{}", '"$(echo {})"')
WRITERS = (
    *(
        "echo 'touch ran' > {}",
        "cp other {}",
        "mv other {}",
        "tee {} < other",
        "dd if=other of={}",
        "ln -sf ../other {}",
    ),
    *('python3 -c \'import sys; open(sys.argv[1], "w").write("touch ran")\' {}', "sed -i '1i touch ran' {}"),
    *(
        "install -m755 other {}",
        "perl -i -pe 's/^/touch ran\\n/' {}",
        "rm -f {}; cp other {}",
        "bash -c 'cat other > {}'",
    ),
)
TARGETS = ("tools/hooks/pre-commit", "tools/hooks/post-checkout", "team.inc")
ATTACKS = [
    writer.replace("{}", place.format(target))
    for writer, place, target in itertools.product(WRITERS, PLACES, TARGETS)
    if "bash -c" not in writer or '"' not in place
]


def make_repository(root: Path) -> None:
    (root / "tools/hooks").mkdir(parents=True)
    (root / "sub").mkdir()
    for name in ("tools/hooks/pre-commit", "team.inc", "other"):
        (root / name).write_text("# as it was\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for words in (["core.hooksPath", "tools/hooks"], ["include.path", "../team.inc"]):
        subprocess.run(["git", "-C", str(root), "config", *words], check=True)


def describe(root: Path) -> dict[str, str]:
    files = (path for path in (root / "tools").rglob("*") if path.is_symlink() or path.is_file())
    return {str(path): path.read_text(encoding="utf-8") for path in (*files, root / "team.inc")}


def test_there_are_enough_attacks() -> None:
    assert len(set(ATTACKS)) >= 150


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", ["off", "auto"])
def test_no_command_changes_hooks_and_settings_that_the_repository_names(tmp_path: Path, sandbox: Sandbox) -> None:
    root = tmp_path / "work"
    make_repository(root)
    before = describe(root)
    settings = Settings(state=str(tmp_path / "state"), sandbox=sandbox, raise_bugs=True)
    changed = []
    with Session(root, mode="full", settings=settings) as session:
        for command in spread(ATTACKS, 12):
            session.call("Bash", {"command": command, "timeout": 10})
            changed += [command] if describe(root) != before else []
            (root / "other").write_text("touch ran\n", encoding="utf-8")
    assert changed == []


def test_edits_of_them_are_asked_about(tmp_path: Path) -> None:
    root = tmp_path / "work"
    make_repository(root)
    with Session(root, mode="full", settings=Settings(state=str(tmp_path / "state"))) as session:
        for name in TARGETS:
            verdict = session.prepare("Write", {"file_path": name, "content": "x"}).verdict
            assert (verdict.decision, verdict.rule) == ("ask", "protected"), name
        assert session.prepare("Write", {"file_path": "tools/other", "content": "x"}).verdict.decision == "allow"


def test_a_setting_that_names_the_whole_workspace_or_a_place_outside_protects_nothing(tmp_path: Path) -> None:
    root = tmp_path / "work"
    make_repository(root)
    assert list_named_by_git([str(root)], "/nowhere") == [f"{root}/tools/hooks", f"{root}/team.inc"]
    for value in (".", "..", "/nowhere/hooks"):
        subprocess.run(["git", "-C", str(root), "config", "core.hooksPath", value], check=True)
        assert list_named_by_git([str(root)], "/nowhere") == [f"{root}/team.inc"]
    assert list_named_by_git([str(tmp_path / "other")], "/nowhere") == []
