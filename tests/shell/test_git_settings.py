"""Git commands that only look run no program of a repository: every setting, in every place, in a real tree."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session, Settings
from handrail.policy.modes import Mode
from handrail.shell.sandbox import Mode as Sandbox
from tests import sizes
from tests.shell.git_trees import CANARY, IN_SUBMODULE, PLACES, Payload, age, make_template, payloads, prepare, shell

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")

MODES: tuple[Mode, ...] = ("read-only", "ask", "accept-edits", "full")
NAMES = [payload.name for payload in payloads(Path("/nowhere"))]
PAIRS = [(name, place) for name in NAMES for place in PLACES if place != "submodule" or name in IN_SUBMODULE]
SWITCHED_OFF = ("fsmonitor", "hooks", "ext", "vcs", "uploadpack", "ssh")
"""What many repositories have: these need no question, since git runs without them."""
WRAPPED = ("{}", "{} | cat", "({})", "bash -c '{}'", 'x="$( {})"; echo "$x"', "true && {}", "if true; then {}; fi")
"""Where in a command git may stand."""


def commands(payload: Payload, place: str) -> list[str]:
    named = IN_SUBMODULE[payload.name] if place == "submodule" else payload.commands
    start = NAMES.index(payload.name) + list(PLACES).index(place)
    return [WRAPPED[(start + at) % len(WRAPPED)].format(command) for at, command in enumerate(named)]


VARIANTS = [(name, place, command) for name, place in PAIRS
            for command in commands(next(p for p in payloads(Path("/nowhere")) if p.name == name), place)]  # fmt: skip


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("git")
    (top / "home").mkdir()
    return make_template(top / "template", top / "home")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HANDRAIL_STATE", str(tmp_path / "state"))
    return place


@pytest.fixture
def hostile(tmp_path: Path, home: Path, template: Path) -> Callable[[str, str], tuple[Payload, Path, Path]]:
    def make(name: str, place: str) -> tuple[Payload, Path, Path]:
        workspace = tmp_path / "work"
        canary = workspace / CANARY
        payload = next(one for one in payloads(canary) if one.name == name)
        prepare(payload, place, template, workspace, home)
        canary.unlink(missing_ok=True)
        return payload, workspace, canary

    return make


def allowed(workspace: Path, mode: Mode, command: str, sandbox: Sandbox = "off") -> bool:
    """Whether a command runs without a question; nobody answers one."""
    with Session(workspace, mode=mode, settings=Settings(sandbox=sandbox)) as session:
        return session.call("Bash", {"command": command}).status != "denied"


def test_there_are_enough_variants() -> None:
    assert len(set(VARIANTS)) == len(VARIANTS) >= 200


@pytest.mark.parametrize(("name", "place"), sizes.spread(PAIRS, 45))
def test_a_looking_command_runs_no_program_of_the_repository(
    name: str, place: str, hostile: Callable[[str, str], tuple[Payload, Path, Path]], home: Path
) -> None:
    payload, workspace, canary = hostile(name, place)
    start = NAMES.index(name)
    fired = []
    for at, command in enumerate(commands(payload, place)):
        mode = MODES[(start + at) % (len(MODES) if name in SWITCHED_OFF else 3)]  # "full" runs any program
        ran = allowed(workspace, mode, command)
        assert not canary.exists(), (mode, command)
        assert ran or name not in SWITCHED_OFF, (mode, command)
        age(workspace)
        shell(command, workspace, home, check=False)
        fired.append(canary.exists())
        canary.unlink(missing_ok=True)
        age(workspace)
    assert any(fired), "plain git runs nothing here either, so that nothing is shown"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SWITCHED_OFF)
def test_the_settings_reach_git_inside_the_boundary_of_this_machine(
    name: str, mode: Mode, hostile: Callable[[str, str], tuple[Payload, Path, Path]]
) -> None:
    payload, workspace, canary = hostile(name, "config")
    assert allowed(workspace, mode, payload.commands[0], "auto")
    assert not canary.exists()


@pytest.mark.parametrize("setting", ["hook.x.command", "lfs.extension.x.clean", "core.virtualFilesystem", "new.x.cmd"])
@pytest.mark.parametrize("command", ["git status", "git log -1", "git diff | cat"])
def test_a_program_that_no_setting_switches_off_is_asked_about(
    setting: str, command: str, template: Path, home: Path, tmp_path: Path
) -> None:
    workspace = Path(shutil.copytree(template, tmp_path / "work"))
    assert allowed(workspace, "read-only", command)
    shell(f"git config {setting} ./run.sh", workspace, home)
    assert not any(allowed(workspace, mode, command) for mode in MODES[:3])
    shell(f"git config --global {setting} ./run.sh", workspace, home)
    assert allowed(workspace, "read-only", command)  # the user's own


HUSKY = (
    "git config core.hooksPath .husky/_; mkdir -p .husky/_; "
    "for hook in pre-commit commit-msg post-checkout pre-push; do "
    "printf '#!/bin/sh\ntouch $PWD/CANARY\n' >.husky/_/$hook; done; chmod +x .husky/_/*"
)
LFS = (
    "git config --global filter.lfs.clean 'cat'; git config --global filter.lfs.smudge 'cat'; "
    "git config --global filter.lfs.required true; echo '* filter=lfs' >.gitattributes; "
    "git config lfs.repositoryformatversion 0; git config lfs.https://example.org/x.git/info/lfs.access basic"
)
USUAL = "; ".join(
    f"git config {setting}"
    for setting in (
        "remote.origin.url git@example.org:x/y.git",
        "remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'",
        "branch.main.remote origin",
        "branch.main.merge refs/heads/main",
        "user.name me",
        "alias.st status",
        "core.editor vim",
        "credential.helper store",
        "pull.rebase true",
        "merge.tool vimdiff",
        "submodule.x.url ../x",
        "commit.gpgsign false",
    )
)
LOOKING = (
    "git status",
    "git diff",
    "git log --oneline -3",
    "git show --stat",
    "git blame -s f",
    "git ls-files",
    "git branch -a",
)


@pytest.mark.parametrize("setup", [HUSKY, LFS, USUAL], ids=["husky", "lfs", "usual"])
@pytest.mark.parametrize("mode", ["read-only", "ask"])
def test_usual_settings_cause_no_question(setup: str, mode: Mode, template: Path, home: Path, tmp_path: Path) -> None:
    workspace = Path(shutil.copytree(template, tmp_path / "work"))
    shell(setup, workspace, home)
    with Session(workspace, mode=mode, settings=Settings(sandbox="off")) as session:
        for command in LOOKING:
            plain = shell(command, workspace, home)
            result = session.call("Bash", {"command": command})
            assert (result.status, result.text.strip()) == ("ok", plain.stdout.strip())


def test_a_trusted_filter_still_runs(template: Path, home: Path, tmp_path: Path) -> None:
    """The user's own program runs; one of the repository with the same name is asked about."""
    workspace = Path(shutil.copytree(template, tmp_path / "work"))
    log = tmp_path / "log"
    shell(f"git config --global diff.x.textconv 'echo trusted >>{log}; cat'", workspace, home)
    shell("echo '* diff=x' >.gitattributes", workspace, home)
    assert allowed(workspace, "ask", "git diff")
    assert log.read_text(encoding="utf-8").startswith("trusted")
    shell("git config diff.x.textconv 'touch CANARY; cat'", workspace, home)
    assert not allowed(workspace, "ask", "git diff")


def test_settings_that_git_tells_are_those_that_are_set(template: Path, home: Path, tmp_path: Path) -> None:
    workspace = Path(shutil.copytree(template, tmp_path / "work"))
    shell(HUSKY, workspace, home)
    with Session(workspace, mode="read-only", settings=Settings(sandbox="off")) as session:
        assert session.call("Bash", {"command": "git config core.hooksPath"}).text.strip() == ".husky/_"


def test_files_outside_are_not_shown_as_those_of_the_repository(template: Path, home: Path, tmp_path: Path) -> None:
    workspace = Path(shutil.copytree(template, tmp_path / "work"))
    (tmp_path / "f").write_text("OUTSIDE\n", encoding="utf-8")
    shell(f"git config core.worktree {tmp_path}", workspace, home)
    assert "OUTSIDE" in shell("git diff", workspace, home).stdout
    assert not allowed(workspace, "ask", "git diff")


@pytest.mark.parametrize("checked_out", [True, False])
@pytest.mark.parametrize("by_setting", [True, False])
@pytest.mark.parametrize("command", ["git show {} HEAD~1", "git log -p {}", "git diff {} HEAD~2 HEAD~1"])
def test_a_submodule_of_an_older_commit_runs_no_program(
    command: str, by_setting: bool, checked_out: bool, home: Path, tmp_path: Path
) -> None:
    """It is not in the index, so nobody inspects its settings; git would diff it with them all the same."""
    canary = tmp_path / CANARY
    work, inner = tmp_path / "work", tmp_path / "inner"
    ident = "-c user.name=x -c user.email=x@example.org"
    shell(f"git init -q {inner} && git init -q {work} && mkdir -p {work}/.git/modules", tmp_path, home)
    for number in (1, 2):
        shell(f"echo {number} >f && git add f && git {ident} commit -qm {number}", inner, home)
        put = f"git update-index --add --cacheinfo 160000,$(git -C {inner} rev-parse HEAD),sub"
        shell(f"{put} && git {ident} commit -qm {number}", work, home)
    shell("printf '[submodule \"s\"]\\n path = sub\\n url = ../x\\n' >.gitmodules && git add .gitmodules", work, home)
    shell(f"git rm -q --cached sub && git {ident} commit -qm 3", work, home)
    shell(f"git config diff.external 'touch {canary}; true'", inner, home)
    shell(f"cp -r {inner} sub" if checked_out else f"cp -r {inner}/.git .git/modules/s", work, home)
    shell("git config diff.submodule diff" if by_setting else ":", work, home)
    asked = command.format("" if by_setting else "--submodule=diff")
    for mode in MODES[:3]:
        assert allowed(work, mode, asked) == by_setting, mode
        assert not canary.exists(), mode
    shell(asked, work, home, check=False)
    assert canary.exists(), "plain git runs nothing here either, so that nothing is shown"


@pytest.mark.parametrize(
    "command",
    [
        "git diff /dev/null id_rsa",
        "git diff {top}/other id_rsa",
        "git diff -U {top}/other id_rsa",
        "git diff -- /dev/null id_rsa",
        "git diff --no-index sub .",
        "git diff --no-index f id_*",
        "git grep --no-index x",
        "git grep --untracked x",
        "git grep x f.txt id_rsa",
    ],
)
def test_git_shows_no_secret_that_is_not_under_version_control(command: str, home: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (work / "id_rsa").write_text("x\n")
    (tmp_path / "other").write_text("y\n")
    shell("git init -q . && echo x >f && echo x >f.txt && git add f f.txt", work, home)
    assert allowed(work, "read-only", "git diff main feature")
    assert not any(allowed(work, mode, command.format(top=tmp_path)) for mode in MODES[:3])


@pytest.mark.parametrize(
    "command", ["git -C ../other log -p", "git -C ../other show HEAD", "cd ../other && git diff HEAD"]
)
def test_what_another_repository_holds_is_shown_after_a_question(
    command: str, template: Path, home: Path, tmp_path: Path
) -> None:
    workspace = Path(shutil.copytree(template, tmp_path / "work"))
    shutil.copytree(template, tmp_path / "other")
    assert not any(allowed(workspace, mode, command) for mode in MODES[:3])
    assert allowed(workspace, "read-only", command.replace("../other", "."))
