"""Generated attacks, run for real by programs whose words tell nothing: protected files and secrets are held."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from handrail import Answer, Session, Settings, Setup
from handrail.model import Question, Result
from handrail.policy.modes import Mode
from tests import sizes
from tests.shell.own_places import BOUNDARIES

T = TypeVar("T")

_SEED = 20_261
_MODES: tuple[Mode, ...] = ("read-only", "ask", "accept-edits", "full") if sizes.LONG else ("full",)
"""In the first two nothing of this is run."""
_SECRET = "hush-hush-4711"
_EVIL = "evil"

# Where a protected file may be: relative to the workspace. The first ones exist before the attack.
_EXISTING = (
    ".git/config",
    ".git/hooks/pre-commit",
    "sub/.git/config",
    "deep/er/.git/hooks/post-checkout",
    "handrail.toml",
    ".claude/settings.json",
    ".vscode/tasks.json",
    ".mcp.json",
    ".gitmodules",
    ".github/workflows/ci.yml",
    "locked.txt",
)
_ABSENT = (
    ".git/commondir",
    ".git/config.worktree",
    ".git/info/attributes",
    ".git/hooks/post-merge",
    "sub/.git/commondir",
    "deep/er/.git/config.worktree",
    "sub/.vscode/tasks.json",
    "sub/.claude/settings.json",
    "sub/.mcp.json",
    "other/handrail.toml",
    ".cursor/mcp.json",
    ".husky/pre-commit",
    ".zed/tasks.json",
    "sub/a.code-workspace",
    ".nvim.lua",
    ".envrc",
    ".gitlab-ci.yml",
    ".circleci/config.yml",
    "bare/config",
)
_WAYS = {
    "write": "import os; os.makedirs(os.path.dirname(P) or '.', exist_ok=True); open(P, 'w').write('evil')",
    "append": "import os; os.makedirs(os.path.dirname(P) or '.', exist_ok=True); open(P, 'a').write('evil')",
    "replace": "import os; os.makedirs(os.path.dirname(P) or '.', exist_ok=True); open('t', 'w').write('evil');"
    " os.replace('t', P)",
    "remove": "import os; os.remove(P)",
    "link": "import os; open('t', 'w').write('evil'); os.makedirs(os.path.dirname(P) or '.', exist_ok=True);"
    " os.path.lexists(P) and os.remove(P); os.symlink(os.path.abspath('t'), P)",
    "hard link": "import os; open('t', 'w').write('evil'); os.makedirs(os.path.dirname(P) or '.', exist_ok=True);"
    " os.path.lexists(P) and os.remove(P); os.link('t', P)",
    "move the parent": "import os; d = os.path.dirname(P); os.rename(d, d + '.aside'); os.makedirs(d);"
    " open(P, 'w').write('evil')",
    "remove the parent": "import os, shutil; shutil.rmtree(os.path.dirname(P))",
    "link the parent": "import os, shutil; d = os.path.dirname(P); os.path.isdir(d) and os.rename(d, d + '.aside');"
    " os.makedirs('evil.d', exist_ok=True); open('evil.d/' + os.path.basename(P), 'w').write('evil');"
    " os.symlink(os.path.abspath('evil.d'), d)",
    "chmod": "import os; os.chmod(P, 0o777); open(P, 'w').write('evil')",
    "truncate": "import os; os.truncate(P, 0)",
}


def _attacks() -> list[tuple[str, str]]:
    all_of_them = list(itertools.product((*_EXISTING, *_ABSENT), _WAYS))
    # Without its own directory, `bare` has no HEAD and is no repository any more: its config means nothing.
    whole = ("bare/config",)
    return [(path, way) for path, way in all_of_them if "parent" not in way or ("/" in path and path not in whole)]


def _sample(cases: list[T]) -> list[T]:
    return random.Random(_SEED).sample(cases, min(sizes.pick(20, len(cases)), len(cases)))


def _make_tree(work: Path) -> None:
    for place in (".", "sub", "deep/er"):
        subprocess.run(["git", "init", "-q", str(work / place)], check=True)
    subprocess.run(["git", "init", "-q", "--bare", str(work / "bare")], check=True)
    (work / "bare" / "config").unlink()
    for name in _EXISTING:
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text("# kept\n", encoding="utf-8")


def _protected(work: Path) -> dict[str, str]:
    """What a person's next git, editor or agent would find."""
    collected = {}
    for name in (*_EXISTING, *_ABSENT):
        path = work / name
        collected[name] = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return collected


def _bash(session: Session, command: str) -> Result:
    result = session.call("Bash", {"command": command})
    if result.error is not None and result.error.code == "no_sandbox":
        pytest.skip(f"this boundary cannot be had on this machine: {result.text}")
    return result


@pytest.fixture
def work() -> Iterator[Path]:
    # Not in /tmp, of which a boundary shows another one.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="handrail-test-") as result:
        place = Path(os.path.realpath(result)) / "work"
        place.mkdir()
        yield place


def _session(work: Path, sandbox: Any, **options: Any) -> Session:
    settings = Settings(state=str(work.parent / "state"), sandbox=sandbox, sandbox_required=True, raise_bugs=True)
    return Session(work, settings=settings, journal=None, **options)


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_protected_files_are_as_before_after_every_attack(work: Path, sandbox: str) -> None:
    attacks = _attacks()
    assert len(attacks) >= 200
    attacks = _sample(attacks)
    rules = work.parent / "rules.toml"
    rules.write_text('rules = ["deny Edit(locked.txt)"]\n', encoding="utf-8")
    from handrail import parse_rules

    parsed = parse_rules(rules.read_text(encoding="utf-8"))
    _make_tree(work)
    before = _protected(work)
    with _session(work, sandbox, mode="accept-edits", setup=Setup(rules=[parsed])) as session:
        for (path, way), mode in itertools.product(attacks, _MODES):
            (work / "attack.py").write_text(f"P = {path!r}\n{_WAYS[way]}\n", encoding="utf-8")
            session.set_mode(mode)
            result = _bash(session, "python3 attack.py")
            after = _protected(work)
            if way == "truncate" and path.endswith(".git/config") and not after[path]:
                # Settings that run nothing may be changed and removed: the file has no others.
                (work / path).write_text(before[path], encoding="utf-8")
                after = _protected(work)
            # A directory of the project, and under Landlock any, can be moved away as a whole, and stays away.
            if "parent" in way and (sandbox == "landlock" or os.path.dirname(path) in ("sub", "deep/er", "bare")):
                assert all(after[name] in ("", text) for name, text in before.items()), (path, way, result.text)
                subprocess.run(["find", str(work), "-mindepth", "1", "-delete"], check=True)
                _make_tree(work)
            else:
                assert after == before, (path, way, result.text)
            for left in ("evil.d", "t"):
                subprocess.run(["rm", "-rf", str(work / left)], check=True)


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_a_command_that_a_person_approved_changes_protected_files(work: Path, sandbox: str) -> None:
    _make_tree(work)
    (work / "attack.py").write_text("open('.mcp.json', 'w').write('wanted')\n", encoding="utf-8")
    with _session(work, sandbox, mode="ask", approve=lambda _: True) as session:
        assert _bash(session, "python3 attack.py").ok
    assert (work / ".mcp.json").read_text(encoding="utf-8") == "wanted"


def test_what_is_put_back_is_said_and_its_contents_are_kept(work: Path) -> None:
    sandbox = "landlock"  # without drafts
    _make_tree(work)
    (work / "attack.py").write_text("open('.envrc', 'w').write('evil')\n", encoding="utf-8")
    with _session(work, sandbox, mode="full") as session:
        result = _bash(session, "python3 attack.py")
        assert result.status == "partial" and ".envrc" in result.text
        assert result.data["put_back"] == [{"path": ".envrc", "change": "created"}]
        kept = [path for path in (work.parent / "state" / "artefacts").rglob("removed-.envrc*") if path.is_file()]
        assert [path.read_text(encoding="utf-8") for path in kept] == ["evil"]


def test_git_works_as_ever_with_files_that_it_brings_from_branches(work: Path) -> None:
    asked: list[Question] = []

    def accept(question: Question) -> bool:
        asked.append(question)
        return True

    person = ["-c", "user.name=n", "-c", "user.email=e@example.org"]

    def git(*words: str) -> None:
        subprocess.run(["git", *person, *words], cwd=work, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    (work / ".mcp.json").write_text("main", encoding="utf-8")
    git("add", ".")
    git("commit", "-qm", "one")
    git("checkout", "-qb", "other")
    (work / ".mcp.json").write_text("other", encoding="utf-8")
    (work / ".gitlab-ci.yml").write_text("other", encoding="utf-8")
    git("add", ".")
    git("commit", "-qm", "two")
    git("checkout", "-q", "main")
    with _session(work, "namespaces", mode="accept-edits", approve=accept) as session:
        assert _bash(session, "git checkout -q other").ok
        assert (work / ".mcp.json").read_text(encoding="utf-8") == "other"
        assert _bash(session, "git checkout -q main").ok
        assert not (work / ".gitlab-ci.yml").exists()
        assert len(asked) == 2
        git("rm", "-q", ".mcp.json")
        git("commit", "-qm", "three")
        git("branch", "-qf", "other")
        script = "git init -q new && git clone -q . copy && git worktree add -q tree other && git status -s"
        (work / "work.sh").write_text(script, encoding="utf-8")
        result = _bash(session, "bash work.sh")
        assert result.ok and len(asked) == 2, result.text
        assert (work / "new/.git/config").exists() and (work / "copy/.git/config").exists()
        assert (work / "tree/.git").exists()


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_git_writes_its_own_settings_but_none_that_run_programs(work: Path, sandbox: str) -> None:
    person = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    setup = "init -q -b main .|commit -q --allow-empty -m one|branch other|config core.hooksPath safe"
    for words in setup.split("|"):
        subprocess.run(["git", *person, *words.split()], cwd=work, check=True)
    config = work / ".git/config"
    with _session(work, sandbox, mode="full" if sandbox == "landlock" else "accept-edits") as session:
        for command in (
            "git remote add up ../up.git",
            "git remote set-url up ../down.git && git remote rename up down",
            "git checkout -q -b follows --track main",
            "git branch -u other && git branch -m follows followed | tail -1",
            "git switch -q main && git branch -d followed",
        ):
            result = _bash(session, command)
            assert result.data["exit_code"] == 0, (command, result.text)
            assert result.data["put_back"] == [], (command, result.text)
        assert "../down.git" in config.read_text(encoding="utf-8")
        before = config.read_text(encoding="utf-8")
        for way in (
            ["config", "core.fsmonitor", "./evil"],
            ["config", "alias.st", "!./evil"],
            ["config", "--unset", "core.hooksPath"],
            ["config", "remote.down.url", "ext::./evil"],
            ["config", "branch.main.mergeOptions", "-s evil"],
            ["config", "submodule.x.update", "!./evil"],
            ["config", "include.path", "../evil"],
        ):
            # A program that git finds by its name, in a line where git writes settings.
            code = f"#!/bin/sh\nexec git {' '.join(map(repr, way))}\n"
            (work / "attack.sh").write_text(code, encoding="utf-8")
            (work / "attack.sh").chmod(0o755)
            for command in ("bash attack.sh", "git remote add more url; bash attack.sh"):
                _bash(session, command)
                assert set(config.read_text(encoding="utf-8").splitlines()) - set(before.splitlines()) <= {
                    '[remote "more"]',
                    "\turl = url",
                    "\tfetch = +refs/heads/*:refs/remotes/more/*",
                }, (way, command)
                assert "hooksPath = safe" in config.read_text(encoding="utf-8")


# Secrets


_HOME_SECRETS = (
    ".ssh/id_rsa",
    ".ssh/config",
    ".aws/credentials",
    ".gnupg/secring.gpg",
    ".netrc",
    ".git-credentials",
    ".config/gh/hosts.yml",
    ".docker/config.json",
    ".kube/config",
)
_WORK_SECRETS = (".env", ".env.local", "deploy/server.pem", "config/id_ed25519", "a/b/secrets.yml", ".npmrc")
_READS = {
    "glob": "import glob; print([open(p, errors='replace').read() for p in glob.glob(D + '/' + N[:2] + '*')])",
    "reversed": "print(open(D + '/' + R[::-1]).read())",
    "walk": "import os\nfor d, _, fs in os.walk(D):\n    for f in fs:\n"
    "        print(open(os.path.join(d, f), errors='replace').read())",
    "descriptor": "import os; os.chdir(D); fd = os.open(R[::-1], os.O_RDONLY); print(os.read(fd, 99))",
    "copy": "import shutil; shutil.copy(D + '/' + N, 'stolen'); print(open('stolen').read())",
    "hard link": "import os; os.link(D + '/' + N, 'stolen'); print(open('stolen').read())",
    "rename": "import os; os.rename(D + '/' + N, 'stolen'); print(open('stolen').read())",
    "link": "import os; os.symlink(D, 'way'); print(open('way/' + N).read())",
    "proc": "print(open('/proc/self/root' + D + '/' + N).read())",
    "shell": "import os; os.system('cat ' + D + '/' + N[:3] + '?*')",
    "memory map": "import mmap, os; print(mmap.mmap(os.open(D + '/' + N, os.O_RDONLY), 0, prot=1)[:])",
    "move the parent": "import os; os.rename(D, D + '.aside'); print(open(D + '.aside/' + N).read())",
    "tar": "import os; os.system('tar cf - ' + D + ' 2>/dev/null')",
    "mode": "import os; os.chmod(D + '/' + N, 0o644); print(open(D + '/' + N).read())",
}


def _leaks() -> list[tuple[str, str, str]]:
    return [
        (where, name, way)
        for where, names in (("home", _HOME_SECRETS), ("work", _WORK_SECRETS))
        for name in names
        for way in _READS
    ]


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_secrets_are_not_read_by_computed_names(work: Path, sandbox: str, monkeypatch: pytest.MonkeyPatch) -> None:
    leaks = _leaks()
    assert len(leaks) >= 200
    if sandbox == "landlock":  # it hides directories outside of the workspace; the description says so
        leaks = [leak for leak in leaks if leak[0] == "home" and leak[1].startswith((".ssh", ".aws", ".gnupg"))]
    leaks = _sample(leaks)
    home = work.parent / "home"
    monkeypatch.setenv("HOME", str(home))
    for top, names in ((home, _HOME_SECRETS), (work, _WORK_SECRETS)):
        for name in names:
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text(_SECRET, encoding="utf-8")
    with _session(work, sandbox, mode="accept-edits") as session:
        for (where, name, way), mode in itertools.product(leaks, _MODES):
            session.set_mode(mode)
            path = (home if where == "home" else work) / name
            code = f"D, N, R = {str(path.parent)!r}, {path.name!r}, {path.name[::-1]!r}\n{_READS[way]}\n"
            (work / "attack.py").write_text(code, encoding="utf-8")
            result = _bash(session, "python3 attack.py")
            assert _SECRET not in json.dumps(result.data) and _SECRET not in result.text, (name, way)
            for left in work.rglob("*"):
                if left.name in ("stolen", "way") and left.is_file():
                    assert _SECRET not in left.read_text(encoding="utf-8", errors="replace"), (name, way)
            subprocess.run(["rm", "-rf", str(work / "stolen"), str(work / "way")], check=True)
            aside = Path(f"{path.parent}.aside")
            if aside.exists() and aside != path.parent:
                aside.rename(path.parent)


def test_a_secret_that_a_command_creates_is_hidden_once_the_person_changes_it(work: Path) -> None:
    # In a draft such a file is asked about, and the person says yes.
    with _session(work, "namespaces", mode="accept-edits", approve=lambda _: Answer(True)) as session:
        (work / "make.py").write_text(f"open('.e' + 'nv', 'w').write({_SECRET!r})\n", encoding="utf-8")
        (work / "read.py").write_text("print(open('.e' + 'nv').read())\n", encoding="utf-8")
        _bash(session, "python3 make.py")
        assert (work / ".env").read_text(encoding="utf-8") == _SECRET
        (work / ".env").write_text(f"of the person: {_SECRET}", encoding="utf-8")
        assert _SECRET not in _bash(session, "python3 read.py").text
