"""Undo with commands among the calls: what is proven goes back byte for byte, and what is not known is named."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from handrail.journal.store import SqliteJournal
from handrail.journal.undo import UndoReport
from tests import sizes
from tests.journal.wired import Wired, tree

NAMES = st.sampled_from(["a", "b.txt", "d/c", "d/e/f", "g", "g/h", "new", "d/new", "to", "d/to", "[x]"])
PLACES = st.sampled_from(["a", "b.txt", "d", "d/c", "d/e", "d/e/f", "g", "g/h", "k", "k/d", "to", "d/to", "[x]", "new"])
PATTERNS = st.sampled_from(["*", "*.txt", "d/*", "[ab]*", "*/c", "?", "none*"])
QUOTED = st.builds("'{}'".format, NAMES)
ANY = st.builds("'{}'".format, PLACES)
MODES = st.sampled_from(["600", "755", "u+x", "o-r", "700"])

COMMANDS = st.one_of(
    st.builds("rm -f {}".format, st.one_of(QUOTED, PATTERNS)),
    st.builds("rm -rf {}".format, ANY),
    st.builds("mv {} {}".format, ANY, ANY),
    st.builds("mv {} {}".format, PATTERNS, ANY),
    st.builds("cp {} {}".format, QUOTED, ANY),
    st.builds("cp -r {} {}".format, ANY, ANY),
    st.builds("cp -r {} {} {}".format, ANY, ANY, ANY),
    st.builds("cp {} {}".format, PATTERNS, ANY),
    st.builds("sed -i s/one/ONE/ {}".format, st.one_of(QUOTED, PATTERNS)),
    st.builds("sed -i.bak s/o/0/ {}".format, st.one_of(QUOTED, PATTERNS)),
    st.builds("echo more > {}".format, QUOTED),
    st.builds("echo more >> {}".format, QUOTED),
    st.builds("echo more | tee {} {}".format, QUOTED, QUOTED),
    st.builds("touch {}".format, st.one_of(ANY, PATTERNS)),
    st.builds("mkdir {}".format, ANY),
    st.builds("mkdir -p {}/deep/er".format, ANY),
    st.builds("rmdir {}".format, ANY),
    st.builds("chmod {} {}".format, MODES, st.one_of(ANY, PATTERNS)),
    st.builds(
        "chmod -R {} {}".format, st.sampled_from(["go-rwx", "a+r", "u+x", "700"]), st.sampled_from(["d", "k", "d/e a"])
    ),
    st.builds("ln -s nowhere {}".format, QUOTED),
    st.builds("ln -sf a {}".format, ANY),
    st.builds("truncate -s 2 {}".format, QUOTED),
    st.builds("cd d && echo x > {}".format, st.sampled_from(["c", "new", "e/f"])),
    st.builds("gzip -f {}".format, QUOTED),
)
WRITE = st.tuples(st.just("Write"), st.fixed_dictionaries({"file_path": NAMES, "content": st.just("written\n")}))
MOVE = st.tuples(st.just("Move"), st.fixed_dictionaries({"source_path": PLACES, "target_path": PLACES}))
TRASH = st.tuples(st.just("Trash"), st.fixed_dictionaries({"path": PLACES}))
BASH = COMMANDS.map(lambda command: ("Bash", {"command": command}))
CALLS = st.lists(st.one_of(BASH, BASH, BASH, WRITE, MOVE, TRASH), min_size=1, max_size=6)


def fill(root: Path) -> None:
    for folder in ("d/e", "d/empty", "k"):
        (root / folder).mkdir(parents=True)
    for name, mode in (("a", 0o644), ("b.txt", 0o600), ("d/c", 0o755), ("d/e/f", 0o640), ("g", 0o644), ("[x]", 0o644)):
        (root / name).write_text(f"one {name}\n", encoding="utf-8")
        (root / name).chmod(mode)
    (root / "d/empty").chmod(0o700)
    (root / "to").symlink_to("a")
    (root / "d/to").symlink_to("../k")


# Without shrinking, which would take minutes here: an example is a whole session.
@settings(
    max_examples=sizes.pick(25, 150),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(CALLS)
def test_commands_and_calls_undone_leave_the_tree_as_it_was(calls: list[tuple[str, dict[str, Any]]]) -> None:
    with tempfile.TemporaryDirectory(prefix="has [a] ") as name:
        root = Path(name, "project")
        root.mkdir()
        fill(root)
        was = tree(root)
        journal = SqliteJournal(str(Path(name, "journal.db")))
        with Wired(root, journal, sandbox="off") as session:
            for tool, arguments in calls:
                if tool == "Write":
                    session.call("Read", {"file_path": arguments["file_path"]})
                session.call(tool, arguments)
            report = session.undo(session="s")
            assert (report.conflicts, report.missing, report.unknown) == ((), (), ())
            assert tree(root) == was
        journal.close()


@pytest.fixture
def undone(tmp_path: Path) -> Callable[[str], UndoReport]:
    """What an undo says of one command; fails if the tree is another one and it does not say so."""

    def run(command: str, **arguments: Any) -> UndoReport:
        root = tmp_path / "project"
        root.mkdir()
        fill(root)
        was = tree(root)
        journal = SqliteJournal(str(tmp_path / "journal.db"))
        with Wired(root, journal, sandbox="off") as session:
            session.call("Bash", {"command": command, **arguments})
            if arguments.get("background"):
                session.call("BashOutput", {"job": "job-1", "wait": 10})
            report = session.undo(session="s")
        journal.close()
        assert tree(root) == was or report.unknown or report.conflicts
        return report

    return run


@pytest.mark.parametrize("before", ["to", "a", "d/to", "d/c"])
@pytest.mark.parametrize("after", ["mkdir {}", "mkdir -p {}/x", "ln -s b.txt {}", "echo x > {}"])
@pytest.mark.parametrize("gone", ["rm {}", "mv {} k"])
def test_a_name_gets_back_what_it_was_whatever_has_it_now(tmp_path: Path, before: str, gone: str, after: str) -> None:
    """A link or a file goes, and a directory, a link or a file takes its name."""
    root = tmp_path / "project"
    root.mkdir()
    fill(root)
    was = tree(root)
    journal = SqliteJournal(str(tmp_path / "journal.db"))
    with Wired(root, journal, sandbox="off") as session:
        for command in (gone, after):
            assert session.call("Bash", {"command": command.format(before)}).ok
        assert tree(root) != was
        report = session.undo(session="s")
        assert (report.conflicts, report.missing, report.unknown) == ((), (), ())
        assert tree(root) == was
    journal.close()


@pytest.mark.parametrize(
    "command",
    [
        "tar cf t.tar d && rm -r d/e && tar xf t.tar",
        "split -b 2 a part-",
        "cp --parents d/e/f k",
        "cp -b a g",
        "cp -rT d k",
        "cp -r d/. k",
        'python3 -c \'open("new", "w")\'',
        "cp a ../outside",
        "gzip -k a && rm a && gunzip *.gz",
        "mkfifo pipe && rm pipe",
        "chmod 700 .",
        "chmod -R go-rwx .",
        "chown -R 0:0 d",
        "(sleep 0.4; echo late > a) & disown",
    ],
)
def test_what_an_undo_cannot_know_is_never_left_out_silently(undone: Callable[..., UndoReport], command: str) -> None:
    report = undone(command)
    assert report.unknown == (command,) or not report.unknown


@pytest.mark.parametrize(
    "command",
    [
        "cp -r d k",
        "cp -r d new",
        "mv d k",
        "mv d k/d2",
        "mkdir -p x/y/z",
        "chmod -R go-rwx d",
        "chmod -R u+x,g=r d k",
        "rmdir -p k",
        "sed -i s/o/0/ to",
        "ln -sf g to",
    ],
)
def test_directories_and_links_that_a_command_makes_or_moves_are_taken_back(
    undone: Callable[..., UndoReport], command: str
) -> None:
    report = undone(command)
    assert (report.unknown, report.conflicts, report.missing) == ((), (), ())


def test_a_command_that_goes_on_in_the_background_is_not_said_to_be_taken_back(
    undone: Callable[..., UndoReport],
) -> None:
    command = "sleep 0.3; echo late > a"
    assert undone(command, background=True).unknown == (command,)
