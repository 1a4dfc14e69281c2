"""Commands that nobody was asked about see the session, the system and toolchains, and nothing else.

Generated attacks try to reach a file beside the workspace by names that they compute, links, the directories of
processes, and mounts of their own. They run for real, all of them in one command.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from handrail import Session, Settings, Setup
from handrail.errors import NoSandbox
from handrail.model import Answer
from handrail.policy.files import parse
from handrail.policy.modes import Mode
from handrail.shell.sandbox import Mode as Sandbox
from handrail.shell.sandbox.choose import Boundary
from handrail.shell.sandbox.confinement import Confinement, drop_nested
from handrail.shell.sandbox.mount_plan import trace_links
from handrail.shell.sandbox.visible import list_looked_at, list_visible
from tests.command import TIMEOUT
from tests.shell.boundaries import boundary_or_skip
from tests.sizes import spread

CANARY = "canary-4711-canary"
SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc", "/opt")

NAMES = (
    "../out/note.txt",
    "$OUT/note.txt",
    "$(printf '%s/note.t%s' \"$OUT\" xt)",
    "$(echo ../ou)t/note.txt",
    "$PWD/../out/note.txt",
    "${PWD%/*}/out/note.txt",
    "way-out",
    "to-out/note.txt",
    "sub/up/../../out/note.txt",
    "/proc/self/root$OUT/note.txt",
    "/proc/thread-self/root$OUT/note.txt",
    "/proc/1/root$OUT/note.txt",
    "/proc/2/root$OUT/note.txt",
    "/proc/$$/root$OUT/note.txt",
    "/proc/$PPID/root$OUT/note.txt",
    "/proc/self/cwd/../out/note.txt",
    "/proc/1/cwd/../out/note.txt",
    "/proc/1/cwd$OUT/note.txt",
    "/oldroot$OUT/note.txt",
    "/.handrail/drafts/../$OUT/note.txt",
    "/dev/../$OUT/note.txt",
    "/tmp/../$OUT/note.txt",
)
READERS = (
    "cat {}",
    "dd if={} status=none",
    "head -c 99 {}",
    'read -r x < {}; echo "$x"',
    'echo "$(<{})"',
    "grep -h . {}",
    "awk 1 {}",
    "tar cf - -P {} | cat",
    "cp -L {} copy && cat copy",
    "ln {} hard && cat hard",
    "ln -sf {} soft && cat soft",
    "python3 -c 'import sys; print(open(sys.argv[1]).read())' {}",
    "find {} -exec cat '{{}}' +",
    "xargs -a {} echo",
    "bash -c '. \"$0\"' {}",
)
WAYS = (
    "grep -rs canary $(dirname $OUT) /home /root /srv /mnt /media /work",
    "find / -xdev -name note.txt -exec cat {} + ",
    "find $(dirname $(dirname $OUT)) -name note.txt -exec cat {} +",
    "cat /proc/[0-9]*/root$OUT/note.txt /proc/[0-9]*/cwd/../out/note.txt",
    "for fd in /proc/[0-9]*/fd/*; do cat $fd/out/note.txt $fd/../out/note.txt $fd$OUT/note.txt; done",
    "unshare -rm sh -c 'umount -l /var; cat $OUT/note.txt'",
    "unshare -rm sh -c 'umount -lR /var/tmp; umount -l /var; umount -l /; cat $OUT/note.txt'",
    "unshare -rm sh -c 'mkdir m; mount --rbind / m; umount -l m/var; cat m$OUT/note.txt'",
    "unshare -rm sh -c 'mkdir -p m; mount --bind /var m; cat m/tmp/*/out/note.txt'",
    "unshare -rm sh -c 'mount -t tmpfs none /mnt; mount --move /var /mnt; cat $OUT/note.txt'",
    "unshare -rmpf --mount-proc sh -c 'cat /proc/1/root$OUT/note.txt'",
    "umount -l /var; cat $OUT/note.txt",
    "mount --bind / sub; cat sub$OUT/note.txt",
    "mount -o remount,bind,rw /var; cat $OUT/note.txt",
    "chroot /proc/1/root cat $OUT/note.txt",
    "nsenter -t 1 -m cat $OUT/note.txt",
    "nsenter -t 1 -a cat $OUT/note.txt",
    "cd ../out && cat note.txt",
    "cd to-out && cat note.txt",
    "cd / && cat .$OUT/note.txt",
    "git -C ../out log -p",
    "git --git-dir=$OUT/.git show HEAD:note.txt",
    "GIT_DIR=$OUT/.git git show HEAD:note.txt",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES=$OUT/.git/objects git cat-file --batch-all-objects --batch",
    "cd hostile && git log -p --all",
    "cd borrowing && git cat-file --batch-all-objects --batch",
    "PYTHONPATH=../out python3 -c 'import note'",
    ".venv/bin/tool; cat .venv/bin/tool .venv/bin/../../way-out",
    "python3 -c \"import os; f = os.open('..', os.O_PATH); print(open(os.open('out/note.txt', 0, dir_fd=f)).read())\"",
    "python3 -c \"import os; os.chroot('.');[os.chdir('..') for _ in 'abcdef']; print(open('.$OUT/note.txt').read())\"",
)


def list_attacks() -> list[str]:
    by_name = [reader.format(*[name] * reader.count("{}")) for reader, name in itertools.product(READERS, NAMES)]
    return [*by_name, *WAYS]


def test_there_are_at_least_200_different_attacks() -> None:
    assert len(set(list_attacks())) >= 200


class _Place(NamedTuple):
    work: Path
    out: Path


@pytest.fixture
def place() -> Iterator[_Place]:
    # Not in /tmp: a boundary gives commands a directory of their own there.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="handrail-test-") as folder:
        work, out = Path(os.path.realpath(folder)) / "work", Path(os.path.realpath(folder)) / "out"
        for path in (work / "sub", work / "hostile", work / "borrowing", work / ".venv/bin", out):
            path.mkdir(parents=True)
        (out / "note.txt").write_text(f"K={CANARY}\n", encoding="utf-8")
        (out / "note.py").write_text(f"print('{CANARY}')\n", encoding="utf-8")
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
        for words in (["init", "-q"], ["add", "note.txt"], ["commit", "-qm", CANARY]):
            subprocess.run([*git, *words], cwd=out, check=True)
        subprocess.run([*git, "init", "-q"], cwd=work / "borrowing", check=True)
        alternates = work / "borrowing/.git/objects/info/alternates"
        alternates.parent.mkdir(exist_ok=True)
        alternates.write_text(f"{out}/.git/objects\n", encoding="utf-8")
        (work / "hostile/.git").write_text(f"gitdir: {out}/.git\n", encoding="utf-8")
        for name, target in (("way-out", "../out/note.txt"), ("to-out", "../out"), ("sub/up", "..")):
            (work / name).symlink_to(target)
        (work / ".venv/bin/tool").symlink_to(out / "note.txt")
        yield _Place(work, out)


def write_script(place: _Place, attacks: list[str]) -> None:
    """One script that tries all of them, each in a shell of its own."""
    lines = [f"export OUT={place.out}"]
    for number, attack in enumerate(attacks):
        (place.work / f"attack-{number}.sh").write_text(attack + "\n", encoding="utf-8")
        lines.append(f"echo 'attack {number}'; timeout 20 bash attack-{number}.sh 2>/dev/null </dev/null | cut -c1-200")
    (place.work / "all.sh").write_text("\n".join(lines) + "\n", encoding="utf-8")


def find_leaks(output: str, attacks: list[str]) -> list[str]:
    parts = output.split("attack ")
    return [attacks[int(part.split()[0])] for part in parts[1:] if CANARY in part]


@pytest.fixture(params=["namespaces"])
def boundary(request: pytest.FixtureRequest, place: _Place) -> Iterator[Boundary]:
    opened = boundary_or_skip(request.param, Confinement((str(place.work),)))
    yield opened
    opened.close()


def run(boundary: Boundary, place: _Place, script: str, visible: tuple[str, ...] | None) -> str:
    quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
    started = boundary.spawn(
        ["bash", "-c", script], visible=visible, cwd=str(place.work), stdin=quiet, stdout=pipe, stderr=subprocess.STDOUT
    )
    return started.communicate(timeout=4 * TIMEOUT)[0].decode("utf-8", "replace")


def find_visible(place: _Place) -> tuple[str, ...]:
    return tuple(list_visible(SYSTEM, [str(place.work)], os.path.expanduser("~"), os.environ))


@pytest.mark.slow
def test_no_attack_reaches_a_file_beside_the_workspace(boundary: Boundary, place: _Place) -> None:
    attacks = list(spread(list_attacks(), 60))
    write_script(place, attacks)
    assert find_leaks(run(boundary, place, "bash all.sh", find_visible(place)), attacks) == []
    assert CANARY in run(boundary, place, "cat ../out/note.txt", None)  # as a command that was approved sees it


def test_visible_paths_are_there_by_all_their_names(boundary: Boundary, place: _Place) -> None:
    top = place.out.parent
    (top / "shown/deep").mkdir(parents=True)
    (top / "shown/deep/file").write_text("shown", encoding="utf-8")
    (top / "links").mkdir()
    (top / "links/one").symlink_to("two")
    (top / "links/two").symlink_to(top / "shown")
    visible = (*find_visible(place), f"{top}/links/one/deep", "/etc/passwd/x", f"{top}/missing")
    script = f"cat {top}/links/one/deep/file; ls {top} {top}/shown; echo x > {top}/new; echo x > {top}/shown/deep/new"
    output = run(boundary, place, f"{script}; echo written > mine; cat mine; echo x > /tmp/y; cat /tmp/y", visible)
    assert output.startswith("shown") and "written\nx\n" in output
    assert "out" not in output.replace("output", "").split() and not (top / "new").exists()
    assert not (top / "shown/deep/new").exists() and (place.work / "mine").read_text(encoding="utf-8") == "written\n"


def test_a_view_follows_what_becomes_of_visible_paths(boundary: Boundary, place: _Place) -> None:
    """The view is built once for many commands."""
    top = place.out.parent
    for name in ("one", "two"):
        (top / name / "sub").mkdir(parents=True)
        (top / name / "sub/file").write_text(name, encoding="utf-8")
    (top / "link").symlink_to("one")
    visible = (*find_visible(place), f"{top}/kit", f"{top}/link/sub", f"{top}/settings")

    def show() -> list[str]:
        output = run(boundary, place, f"cat {top}/kit/file; echo; cat {top}/link/sub/file; echo; ls {top}", visible)
        return output.splitlines()

    first = show()
    assert "one" in first and not {"kit", "settings", "two"} & set(first)
    (top / "kit").mkdir()
    (top / "kit/file").write_text("made", encoding="utf-8")
    (top / "settings").write_text("first", encoding="utf-8")
    assert show()[:2] == ["made", "one"]
    (top / "kit").rename(top / "aside")
    (top / "kit").mkdir()
    (top / "kit/file").write_text("replaced", encoding="utf-8")
    (top / "link").unlink()
    (top / "link").symlink_to("two")
    assert show() == ["replaced", "two", "kit", "link", "settings", "two", "work"]
    (top / "new").write_text("second", encoding="utf-8")
    (top / "new").replace(top / "settings")
    assert run(boundary, place, f"cat {top}/settings", visible) == "second"


def test_programs_and_the_top_of_the_tree_stay(boundary: Boundary, place: _Place) -> None:
    output = run(
        boundary, place, "python3 -c 'print(40 + 2)'; git --version; cat /etc/passwd; ls /", find_visible(place)
    )
    assert output.startswith("42\ngit version") and "root:" in output and "usr" in output


# Sessions


def open_session(place: _Place, mode: Mode, sandbox: Sandbox, tmp_path: Path, **rest: object) -> Session:
    settings = Settings(state=str(tmp_path / "state"), sandbox=sandbox, sandbox_required=True, raise_bugs=True)
    session = Session(place.work, mode=mode, settings=settings, **rest)  # type: ignore[arg-type]
    try:
        assert session.services.command_host().boundary
    except NoSandbox as error:
        session.close()
        pytest.skip(f"{sandbox} cannot be used on this machine: {error}")
    return session


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["read-only", "ask", "deny-asks", "accept-edits"])
def test_a_command_in_a_draft_reads_nothing_outside(mode: Mode, place: _Place, tmp_path: Path) -> None:
    attacks = list(spread(list_attacks(), 25))
    write_script(place, attacks)
    with open_session(place, mode, "namespaces", tmp_path) as session:
        if not session.services.command_host().drafts.workspace:
            pytest.skip(f"there is no draft here: {session.services.command_host().drafts.why_none}")
        result = session.call("Bash", {"command": "bash all.sh", "timeout": 300})
        assert result.ok and "attack 0" in result.text
        log = result.data["log"]
        text = session.call("Bash", {"command": f"cat {log}"}).text if log else result.text
    assert find_leaks(text, attacks) == []


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", ["namespaces"])
def test_a_path_outside_that_is_named_is_asked_about_and_then_seen(
    sandbox: Sandbox, place: _Place, tmp_path: Path
) -> None:
    (place.out / "tool.py").write_text("print(open(__file__.replace('tool.py', 'note.txt')).read())", encoding="utf-8")
    questions = []

    def answer(question: object) -> Answer:
        questions.append(question)
        return Answer(True)

    with open_session(place, "ask", sandbox, tmp_path, approve=answer) as session:
        assert CANARY in session.call("Bash", {"command": "python3 ../out/tool.py"}).text
        assert len(questions) == 1
        hidden = session.call(
            "Bash", {"command": "python3 -c \"print(open('/'.join(['..', 'out', 'note.txt'])).read())\""}
        )
    if sandbox == "namespaces" and len(questions) == 1:  # in a draft
        assert CANARY not in hidden.text and "outside_hidden" in [note.code for note in hidden.notes]


def test_a_rule_shows_what_it_allows_to_read(place: _Place, tmp_path: Path) -> None:
    (place.out.parent / "other").mkdir()
    (place.out.parent / "other/file").write_text(CANARY, encoding="utf-8")
    rules = [parse(f'rules = ["allow Read(/{place.out}/**)"]', "policy.toml", "user", "/")]
    code = "import os; print(os.listdir('..'), open('/'.join(['..', 'out', 'note.txt'])).read())"
    with open_session(place, "ask", "namespaces", tmp_path, setup=Setup(rules=rules)) as session:
        if not session.services.command_host().drafts.workspace:
            pytest.skip(f"there is no draft here: {session.services.command_host().drafts.why_none}")
        text = session.call("Bash", {"command": f'python3 -c "{code}"'}).text
    assert CANARY in text and "other" not in text


def test_names_outside_can_be_listed(place: _Place, tmp_path: Path) -> None:
    with open_session(place, "read-only", "namespaces", tmp_path) as session:
        assert "note.txt" in session.call("Bash", {"command": "ls ../out"}).text


def test_git_sees_the_repository_that_a_workspace_is_part_of(place: _Place, tmp_path: Path) -> None:
    subprocess.run(["git", "worktree", "add", "-q", str(place.work / "tree")], cwd=place.out, check=True)
    for part in (place.out / "part", place.work / "tree/part"):
        part.mkdir()
    for work in (place.work / "tree", place.work / "tree/part", place.out / "part"):
        with open_session(_Place(work, place.out), "read-only", "namespaces", tmp_path) as session:
            assert CANARY in session.call("Bash", {"command": "git log"}).text
            assert "deleted" not in session.call("Bash", {"command": "git status"}).text


# The list


def test_toolchains_of_the_search_path_are_visible_and_not_the_home_around_them(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "home/project"
    for path in (
        "project/bin",
        "bin",
        "tools/node/bin",
        "tools/node/lib",
        ".local/bin",
        ".local/lib",
        ".local/share/app",
    ):
        (home / path).mkdir(parents=True)
    for path in ("far/tool/bin", "far/tool/lib", "far/single"):
        (tmp_path / path).mkdir(parents=True)
    for path in ("far/tool/bin/run", "far/single/run"):
        (tmp_path / path).write_text("", encoding="utf-8")
    (home / ".local/bin/run").symlink_to(tmp_path / "far/tool/bin/run")
    (home / ".local/bin/other").symlink_to(tmp_path / "far/single/run")
    (work / "bin/trap").symlink_to(home / ".local/share/app")
    search = [home / "bin", home / "tools/node/bin", home / ".local/bin", work / "bin", home, "relative", "/usr/bin"]
    env = {"PATH": ":".join(map(str, search)), "GOROOT": str(home), "JAVA_HOME": str(home / "tools/java")}
    trees = list_visible(["/usr", "~/.local/lib", "$GOROOT", "$JAVA_HOME", "$UNSET"], [str(work)], str(home), env)

    def shows(path: str) -> bool:
        return any(os.path.join(str(tmp_path), path).startswith((f"{tree}/", tree)) for tree in trees)

    for path in ("home/project/x", "home/bin/x", "home/tools/node/lib/x", "home/.local/lib/x", "home/tools/java/x"):
        assert shows(path), path
    assert shows("far/tool/lib") and shows("far/single/run") and "/usr" in trees
    for path in ("home/.local/share/app", "home/tools/other", "home/notes", "far/single/secret", "far/other"):
        assert not shows(path), path


def test_a_repository_elsewhere_is_visible_only_if_it_names_the_work_tree(place: _Place) -> None:
    trees = list_visible((), [str(place.work / "hostile")], "/nowhere", {"PATH": ""})
    assert not any(tree.startswith(str(place.out)) for tree in trees)
    subprocess.run(["git", "worktree", "add", "-q", str(place.work / "tree")], cwd=place.out, check=True)
    trees = list_visible((), [str(place.work / "tree")], "/nowhere", {"PATH": ""})
    assert f"{place.out}/.git" in trees
    assert list_looked_at(str(place.work / "borrowing")) == [f"{place.work}/borrowing", f"{place.out}/.git/objects"]


def test_links_on_the_way_to_a_path(tmp_path: Path) -> None:
    top = os.path.realpath(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "loop").symlink_to("loop")
    assert trace_links(f"{top}/b/../b/x", {}, {}) == ({f"{top}/b": "a"}, f"{top}/a/x")
    assert trace_links(f"{top}/loop/x", {}, {})[0] == {f"{top}/loop": "loop"}
    assert drop_nested(["/a/b", "/a-b", "/a", "/a/c/d", "/b"]) == ["/a", "/a-b", "/b"]


def test_files_that_the_users_git_settings_include_are_visible(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    for directory in (home / "dotfiles", home / ".config/git", work):
        directory.mkdir(parents=True)
    (home / ".gitconfig").write_text(
        "[user]\n\tname = a\n\tpath = ~/private\n"
        '[includeIf "gitdir:~/work/"]\n\tpath = ~/dotfiles/work\n'
        '[Include]\n\tPath = "dotfiles/more"\n\tpath = dotfiles\n',
        encoding="utf-8",
    )
    (home / "dotfiles/work").write_text("[include]\n\tpath = nested\n[user]\n\temail = a@b\n", encoding="utf-8")
    for name in ("private", "dotfiles/more", "dotfiles/nested", "dotfiles/other"):
        (home / name).write_text("", encoding="utf-8")
    trees = list_visible((), [str(work)], str(home), {"PATH": ""})
    shown = {os.path.relpath(tree, home) for tree in trees if tree.startswith(f"{home}/")}
    wanted = {".gitconfig", ".config/git", ".config/git/config", "dotfiles/work", "dotfiles/more", "dotfiles/nested"}
    assert shown == wanted
