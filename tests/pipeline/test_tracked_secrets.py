"""Files that git tracks are no secrets by their names, and no git command adds, replaces or deletes one that is."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail import Session, Settings, Setup
from handrail.model import Result
from handrail.policy.files import parse_rules
from handrail.shell.git.tracked_files import TrackedFiles
from tests.drafts.machine import require_drafts
from tests.pipeline.opaque_commands import opaque
from tests.sizes import pick

pytestmark = [
    pytest.mark.slow,  # starts many processes
    pytest.mark.skipif(shutil.which("git") is None, reason="there is no git"),
]

_NAMES = (
    ".env",
    ".env.local",
    "prod.env",
    "server.pem",
    "app.key",
    "id_rsa",
    "kubeconfig",
    "dev.kubeconfig",
    "credentials.json",
    "secrets.yml",
    "token.json",
    "terraform.tfstate",
    "store.p12",
    "api.token",
)
_FOLDERS = ("", "src", "cmd/phases/kubeconfig", "deploy/app.key", "certs", "a b")
_PERSON = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_EDITOR": "true",
    "LC_ALL": "C",
}


class _Project:
    """A repository, its session, and a twin without untracked secrets in which the same commands run outside."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work, self.twin = folder / "work", folder / "twin"
        self.secrets: dict[str, str] = {}
        """Untracked: the contents by name."""
        self.session: Session | None = None
        self.work.mkdir()
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "a")
        self.git("config", "user.email", "a@b")

    def write(self, name: str, text: str) -> None:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def git(self, *words: str, place: Path | None = None, check: bool = True) -> str:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **_PERSON}
        done = subprocess.run(
            ["git", *words], cwd=place or self.work, env=env, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def commit(self, message: str = "commit") -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", message, check=False)

    def open(self) -> None:
        """Copy the repository, add the secrets, and open the session."""
        shutil.copytree(self.work, self.twin, symlinks=True)
        for name, text in self.secrets.items():
            self.write(name, text)
        self.restart()

    def restart(self) -> None:
        self.close()
        settings = Settings(durable=False, raise_bugs=True, state=str(self.folder / "state"))
        self.session = Session(self.work, settings=settings, approve=lambda _: True)

    def close(self) -> None:
        if self.session:
            self.session.close()

    def bash(self, command: str, **more: object) -> Result:
        assert self.session
        return self.session.call("Bash", {"command": command, **more})

    def run(self, command: str) -> Result:
        """A command through Bash, and the same in the twin."""
        result = self.bash(command)
        # Git deletes a directory that looks empty; a secret in it stays.
        codes = [note.code for note in result.notes if note.code != "secrets_hidden"]  # said once, if a command fails
        assert codes in ([], ["hidden_left"]), (command, result.text)
        assert result.status in ("ok", "partial"), (command, result.text)
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **_PERSON}
        subprocess.run(["bash", "-c", command], cwd=self.twin, env=env, capture_output=True, check=False, timeout=60)
        return result

    def describe(self, place: Path) -> dict[str, str]:
        """What git says of the tracked files."""
        return {
            "index": self.git("ls-files", "--stage", place=place),
            "tree": self.git("ls-tree", "-r", "HEAD", place=place),
            "status": self.git("status", "--porcelain", "--untracked-files=no", place=place),
            "diff": self.git("diff", place=place),
            "stash": self.git("ls-tree", "-r", "stash@{0}", place=place, check=False),
            "stashes": str(len(self.git("stash", "list", place=place).splitlines())),
        }

    def check(self, command: str) -> None:
        assert self.describe(self.work) == self.describe(self.twin), command
        tracked = set(self.git("ls-files", "-z").split("\0"))
        for name, text in self.secrets.items():
            assert (self.work / name).read_text(encoding="utf-8") == text, command
            assert name not in tracked, command


@pytest.fixture
def project(tmp_path: Path) -> Iterator[_Project]:
    require_drafts()
    project = _Project(tmp_path)
    yield project
    project.close()


def _generate(project: _Project, chance: random.Random) -> list[str]:
    """A repository with two branches and some work that is not committed; returns its tracked secret-like files."""
    names = [os.path.join(folder, name) for folder in _FOLDERS for name in _NAMES]
    chance.shuffle(names)
    tracked, untracked = names[: chance.randrange(3, 12)], names[12 : chance.randrange(13, 24)]
    # A file cannot be where another one needs a directory.
    tracked = [name for name in tracked if not any(other.startswith(f"{name}/") for other in names)]
    untracked = [name for name in untracked if not any(other.startswith(f"{name}/") for other in names)]
    project.write("cmd/phases/kubeconfig/kubeconfig.go", "package kubeconfig\n")
    project.write("README", "text\n")
    for name in tracked:
        project.write(name, f"{name}\none\n")
    project.commit("first")
    project.git("checkout", "-qb", "side")
    project.write("side.txt", "side\n")
    project.write(tracked[0], "of the side\n")
    project.commit("side")
    project.git("checkout", "-q", "main")
    project.write("main.txt", "main\n")
    project.commit("main")
    if chance.random() < 0.5:
        project.write(tracked[-1], "the person is at work here\n")
    project.secrets = {name: f"SECRET {name}\n" for name in untracked}
    return [*tracked, "cmd/phases/kubeconfig/kubeconfig.go"]


def _generate_commands(chance: random.Random, tracked: list[str], count: int) -> Iterator[str]:
    for number in range(count):
        name = f"'{chance.choice(tracked)}'"
        yield chance.choice(
            [
                "git status",
                "git diff",
                "git add -A",
                "git add .",
                f"git add {name}",
                f"git commit -m {number}",
                f"git commit -am {number}",
                f"git add -A && git commit -m {number}",
                "git stash",
                "git stash -u",
                "git stash pop",
                "git checkout side",
                "git checkout main",
                f"git checkout -- {name}",
                f"git restore {name}",
                f"git mv {name} moved{number}.txt",
                f"git rm --cached {name}",
                f"git rm -f {name}",
                "git merge --no-edit side",
                "git rebase side",
                "git rebase --abort",
                "git reset",
                "git reset --soft HEAD~1",
                f"echo {number} >> {name}",
                f"echo {number} > new{number}.txt",
            ]
        )


@pytest.mark.parametrize("seed", range(pick(8, 200)))
def test_git_sees_tracked_files_as_they_are_and_untracked_secrets_never(project: _Project, seed: int) -> None:
    chance = random.Random(seed)
    tracked = _generate(project, chance)
    project.open()
    for command in _generate_commands(chance, tracked, pick(8, 12)):
        project.run(command)
        project.check(command)


def test_a_commit_through_bash_deletes_no_source(project: _Project) -> None:
    source = [f"cmd/kubeadm/app/phases/kubeconfig/{name}" for name in ("doc.go", "kubeconfig.go", "kubeconfig_test.go")]
    for name in (*source, "pkg/config/kubeconfig", "test/certs/ca.key", "cmd/kubeadm/app/phases/wait.go"):
        project.write(name, "package kubeconfig\n" * 50)
    project.commit()
    project.secrets = {".env": "TOKEN=1\n", "cmd/kubeadm/app/phases/kubeconfig/admin.kubeconfig": "TOKEN=2\n"}
    project.open()
    assert project.bash("git status --short").text == "(no output)"
    project.run("echo 'package wait' >> cmd/kubeadm/app/phases/wait.go")
    project.run("git add cmd/kubeadm/app/phases && git commit -m x")
    project.check("git commit")
    assert "1 file changed, 1 insertion(+)" in project.git("show", "--stat")
    assert project.session
    for tool, arguments in (("Read", {"file_path": source[1]}), ("Grep", {"pattern": "package kube", "path": "cmd"})):
        assert "kube" in project.session.call(tool, arguments).text
    listed = project.session.call("Glob", {"pattern": "**/*"}).text
    assert all(name in listed for name in source)
    assert "admin.kubeconfig" not in listed
    edited = project.session.call(
        "Edit", {"file_path": source[0], "old_string": "package kubeconfig\n" * 50, "new_string": "package other\n"}
    )
    assert edited.data["applied"], edited.text


_MAKE = {
    "file": "open({0!r}, 'w').write('mine')",
    "link": "os.symlink('README', {0!r})",
    "directory": "os.makedirs({0!r} + '/x')",
    "renamed": "os.replace('README', {0!r})",
    "deleted around": "shutil.rmtree({0!r}.rpartition('/')[0] or 'src')",
    "replaced around": "shutil.rmtree('src'); open('src', 'w').write('file')",
    "created around": "shutil.rmtree('src'); os.mkdir('src'); open('src/other', 'w').write('1')",
    "moved around": "os.rename('src', 'moved')",
}


@pytest.mark.parametrize("name", [".env", "src/app.key", "src/.aws/credentials", "src/deep/kubeconfig"])
@pytest.mark.parametrize("how", _MAKE)
def test_a_command_never_replaces_or_deletes_a_file_that_it_cannot_see(project: _Project, name: str, how: str) -> None:
    if "around" in how and "/" not in name:
        pytest.skip("there is no directory around it but the workspace")
    project.write("README", "text\n")
    project.write("src/a.py", "1\n")
    project.write("src/deep/b.py", "1\n")
    project.commit()
    project.secrets = {name: "SECRET\n", "src/also.pem": "SECRET\n"}
    project.open()
    result = project.bash(opaque(f"import os, shutil; {_MAKE[how].format(name)}".replace('"', "'")))
    assert "SECRET" not in result.text
    for secret, text in project.secrets.items():
        assert (project.work / secret).read_text(encoding="utf-8") == text
    notes = {note.code: note.text for note in result.notes}
    if how == "moved around" and "hidden_left" not in notes:
        assert "moved" in result.text
    elif result.data.get("exit_code") == 0:
        assert "src" in notes["hidden_left"] or name in notes["hidden_left"]
    shown = project.bash("ls -A src; cat src/* src/deep/*").text
    assert "SECRET" not in shown


_SMUGGLE = {
    "cacheinfo": "git update-index --add --cacheinfo 100644,$(git rev-parse HEAD:README),.env",
    "intent": "git update-index --add --cacheinfo 100644,$(git hash-object -w README),.env && git commit -qm x",
    "created": "f=.en; echo x > ${f}v && git add -f . && git commit -qm x",
    "tree": "git update-ref HEAD $(printf '100644 blob %s\\t.env\\n' $(git rev-parse HEAD:README) | git mktree "
    "| xargs git commit-tree -m x -p HEAD)",
    "branch": "git update-ref refs/heads/other $(printf '100644 blob %s\\t.env\\n' $(git rev-parse HEAD:README) "
    "| git mktree | xargs git commit-tree -m x)",
    "replaced": "git replace HEAD $(printf '100644 blob %s\\t.env\\n' $(git rev-parse HEAD:README) | git mktree "
    "| xargs git commit-tree -m x)",
    "new": "rm -rf .git && git init -q && git -c user.name=a -c user.email=b commit -qm x --allow-empty",
}


@pytest.mark.parametrize("way", _SMUGGLE)
def test_no_command_makes_a_secret_a_tracked_file(project: _Project, way: str) -> None:
    project.write("README", "text\n")
    project.write("do.sh", _SMUGGLE[way])
    project.commit()
    project.secrets = {".env": "SECRET\n"}
    project.open()
    project.bash("sh do.sh")
    for _ in range(2):
        for command in ("f=.en; cat ${f}v", "git checkout -q other; f=.en; cat ${f}v"):
            project.write("do.sh", command)
            assert "SECRET" not in project.bash("sh do.sh").text
        assert project.session
        assert project.session.call("Read", {"file_path": ".env"}).status == "denied"
        project.restart()
    assert (project.work / ".env").read_text(encoding="utf-8") == "SECRET\n"


def test_a_forged_object_makes_no_secret_a_tracked_file(project: _Project) -> None:
    project.write("README", "text\n")
    project.commit()
    project.secrets = {".env": "SECRET\n"}
    project.open()
    tree, blob = project.git("rev-parse", "HEAD^{tree}", "HEAD:README").split()
    entry = b"100644 .env\0" + bytes.fromhex(blob)
    path = project.work / ".git/objects" / tree[:2] / tree[2:]
    path.unlink()
    path.write_bytes(zlib.compress(b"tree %d\0" % len(entry) + entry))
    assert project.session
    assert project.session.call("Read", {"file_path": ".env"}).status == "denied"


def test_what_the_person_commits_is_shown_and_what_a_model_commits_is_not(project: _Project) -> None:
    project.write("README", "text\n")
    project.commit()
    project.secrets = {"certs/test.pem": "certificate\n"}
    project.open()
    assert project.session
    project.bash("touch made")
    assert project.session.call("Read", {"file_path": "certs/test.pem"}).status == "denied"
    project.commit("by the person")
    project.write("certs/test.pem", "changed since\n")
    project.write("do.sh", "cat certs/*")
    assert "changed since" in project.bash("sh do.sh").text


def test_what_a_tool_wrote_is_shown_to_commands_and_what_it_moved_is_not(project: _Project) -> None:
    project.write("README", "text\n")
    project.write("do.sh", "cat *.pem; touch made")
    project.commit()
    project.secrets = {"old.pem": "SECRET\n"}
    project.open()
    names = [str(project.work / name) for name in ("new.pem", "old.pem", "moved.pem")]
    rules = [f"allow {tool}(/{name})" for name in names for tool in ("Edit", "Delete")]
    rules += [f"allow Read(/{names[1]})"]
    settings = Settings(durable=False, raise_bugs=True, state=str(project.folder / "state"))
    file = parse_rules(f"rules = {json.dumps(rules)}")
    with Session(project.work, settings=settings, setup=Setup(rules=[file]), approve=lambda _: True) as session:
        assert session.call("Write", {"file_path": "new.pem", "content": "own\n"}).status == "ok"
        moved = session.call("Move", {"source_path": "old.pem", "target_path": "moved.pem"})
        assert moved.status == "ok", moved.text
    project.restart()
    shown = project.bash("sh do.sh").text
    assert "own" in shown
    assert "SECRET" not in shown


def test_what_a_command_left_is_shown_until_another_program_changes_it(project: _Project) -> None:
    project.write("README", "text\n")
    project.write("do.sh", "f=.en; echo own > ${f}v")
    project.commit()
    project.open()
    assert project.bash("sh do.sh").status == "ok"
    for _ in range(2):
        project.write("do.sh", "cat .e*; touch made")
        assert "own" in project.bash("sh do.sh").text
        project.restart()
    project.write(".env", "SECRET\n")
    assert "SECRET" not in project.bash("sh do.sh").text


@pytest.mark.parametrize(
    "command", ["git add -A && git commit -m x", "git commit -am x", "git rm -q --cached src/b.py"]
)
def test_a_tracked_file_that_a_rule_hides_is_never_recorded_as_changed(project: _Project, command: str) -> None:
    project.write("src/a.py", "1\n")
    project.write("src/b.py", "1\n")
    project.write(".handrailignore", "b.py\n")
    project.commit()
    project.open()
    before = project.describe(project.work)
    project.write("do.sh", f"echo 2 > src/a.py; {command}")
    result = project.bash("sh do.sh")
    assert result.data["kept"] is False, result.text
    assert "src/b.py" in result.text
    assert project.describe(project.work) == before


def _make_decoys(project: _Project, count: int) -> None:
    project.write("README", "text\n")
    project.commit()
    for number in range(count):
        project.write(f".{'abcdez'[number % 6]}/{number:04}.pem", f"DECOY {number}\n")
    project.secrets = {".env": "SECRET\n", "z/z.env": "SECRET\n"}
    project.open()


@pytest.mark.parametrize("command", ["git commit -am x", "git stash"])
def test_a_job_does_not_fail_because_of_a_secret(project: _Project, command: str) -> None:
    project.write("src/app.key", "tracked\n")
    project.write("src/a.py", "1\n")
    project.commit()
    project.write("src/a.py", "2\n")
    project.write("src/app.key", "tracked, changed\n")
    project.secrets = {".env": "SECRET\n", "src/[b] c.pem": "SECRET\n", "x.key/deep/a.py": "SECRET\n"}
    project.open()
    project.write("src/new.py", "1\n")
    shutil.copy(project.work / "src/new.py", project.twin / "src/new.py")
    started = project.bash(command, background=True)
    assert started.status == "ok", started.text
    assert project.session
    ended = project.session.call("BashOutput", {"job": started.data["job"], "wait": 60})
    assert ended.data["exit_code"] == 0, ended.text
    project.git(*command.split()[1:], place=project.twin)
    project.check(command)


@pytest.mark.parametrize("command", ["git add -A", "git add .", "git stash -u"])
def test_a_job_that_would_add_a_secret_fails_and_names_it(project: _Project, command: str) -> None:
    project.write("src/a.py", "1\n")
    project.commit()
    project.secrets = {".env": "SECRET\n"}
    project.open()
    started = project.bash(command, background=True)
    assert project.session
    ended = project.session.call("BashOutput", {"job": started.data["job"], "wait": 60})
    assert ended.data["exit_code"] != 0 and ".env" in ended.text
    assert "SECRET" not in project.git("log", "--all", "-p") + project.git("diff", "--cached")
    assert (project.work / ".env").read_text(encoding="utf-8") == "SECRET\n"


@pytest.mark.parametrize("count", [201, pick(300, 1000)])
def test_decoys_open_no_secret(project: _Project, count: int) -> None:
    _make_decoys(project, count)
    look = opaque(
        "import glob; print([open(n).read() for n in ['.env', *glob.glob('*/*')] if __import__('os').path.isfile(n)])"
    )
    for command in (look, f"{look}; touch made", "cat .e* z/*"):
        result = project.bash(command)
        assert "SECRET" not in result.text
        assert "DECOY" not in result.text


def test_searches_of_later_sessions_find_what_was_tracked_meanwhile(project: _Project) -> None:
    project.write("README", "needle\n")
    project.commit()
    project.secrets = {"prod.env": "needle\n"}
    project.open()
    tracked = ["README"]
    for name in ("one/id_rsa", "two/server.pem"):
        project.write(name, "needle\n")
        project.git("add", name)
        project.git("commit", "-qm", "commit")
        tracked.append(name)
        for _ in range(2):
            project.restart()
            assert project.session
            searched = project.session.call("Grep", {"pattern": "needle", "sort": "path"})
            assert searched.data["files"] == tracked


def test_a_workspace_inside_a_repository_has_its_tracked_files(project: _Project) -> None:
    project.write("part/certs/test.key", "tracked\n")
    project.commit()
    project.write("part/certs/own.key", "SECRET\n")
    settings = Settings(durable=False, raise_bugs=True, state=str(project.folder / "state"))
    with Session(project.work / "part", settings=settings) as session:
        assert "tracked" in session.call("Read", {"file_path": "certs/test.key"}).text
        assert session.call("Read", {"file_path": "certs/own.key"}).status == "denied"
        text = session.call("Bash", {"command": opaque("import os; print(os.listdir('certs')); open('x', 'w')")}).text
        assert "['test.key']" in text


@pytest.mark.parametrize("place", [".", "part"])
def test_a_repository_that_a_command_made_is_not_trusted_later(tmp_path: Path, place: str) -> None:
    require_drafts()
    work = tmp_path / "work"
    (work / place).mkdir(parents=True)
    (work / "do.sh").write_text(
        f"cd {place} && git init -q && git config user.name a && git config user.email b && echo x > x && git add x &&"
        " git update-index --add --cacheinfo 100644,$(git hash-object -w x),.env && git commit -qm x && echo done",
        encoding="utf-8",
    )
    settings = Settings(durable=False, raise_bugs=True, state=str(tmp_path / "state"))
    with Session(work, settings=settings, approve=lambda _: True) as session:
        assert "done" in session.call("Bash", {"command": "sh do.sh"}).text
    assert (work / place / ".git/HEAD").exists()
    (work / place / ".env").write_text("SECRET\n", encoding="utf-8")
    with Session(work, settings=settings, approve=lambda _: True) as session:
        assert session.call("Read", {"file_path": f"{place}/.env"}).status == "denied"


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("branch", ["main", "other"])
def test_a_commit_of_a_command_in_the_background_is_never_trusted(project: _Project, killed: bool, branch: str) -> None:
    project.write("README", "text\n")
    project.commit()
    secret, state = str(project.work / ".env"), str(project.folder / "state")
    tracked = TrackedFiles(state)
    tracked.look(str(project.work))
    tracked.begin_changes(str(project.work))
    if branch != "main":
        project.git("checkout", "-qb", branch)
    project.write(".env", "smuggled\n")
    project.commit("by the command")
    if branch != "main":
        project.git("checkout", "-q", "main")
    if not killed:
        tracked.end_changes()
    project.git("checkout", "-q", branch)
    project.write(".env", "SECRET\n")
    for one in (TrackedFiles(state), *([] if killed else [tracked])):
        one.look(str(project.work))
        assert one.is_tracked(str(project.work / "README"))
        assert not one.is_tracked(secret)
    project.commit("by the person")
    project.write(".env", "changed by the person\n")
    assert TrackedFiles(state).is_tracked(secret)
