"""Whatever calls were made, taking all of them back leaves the tree as it was: bytes, modes, directories."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from handrail.journal.queries import JournalReader
from handrail.journal.store import SqliteJournal
from tests import sizes
from tests.journal.wired import Wired, tree

NAMES = st.sampled_from(["a", "b.sh", "d/c", "d/e/f", "g", "g/h"])
LINES = st.lists(st.sampled_from(["one", "two", "three", "\tfour", "ä", ""]), max_size=4)
ENDS = st.sampled_from(["\n", "\r\n"])
MODES = st.sampled_from([0o644, 0o600, 0o755, 0o640, 0o400 | 0o200])
TEXTS = st.builds(lambda lines, end, last: end.join(lines) + (end if last else ""), LINES, ENDS, st.booleans())
WORDS = st.sampled_from(["one", "two", "three", "four", "x"])

WRITE = st.tuples(st.just("Write"), st.fixed_dictionaries({"file_path": NAMES, "content": TEXTS}))
EDIT = st.tuples(
    st.just("Edit"),
    st.fixed_dictionaries({"file_path": NAMES, "old_string": WORDS, "new_string": WORDS, "replace_all": st.just(True)}),
)
PAIR = st.fixed_dictionaries({"old_string": WORDS, "new_string": WORDS, "replace_all": st.just(True)})
MULTI = st.tuples(
    st.just("MultiEdit"),
    st.fixed_dictionaries({"file_path": NAMES, "edits": st.lists(PAIR, min_size=1, max_size=3)}),
)


@st.composite
def patches(draw: st.DrawFn) -> tuple[str, dict[str, object]]:
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        name, kind = draw(NAMES), draw(st.sampled_from(["add", "delete", "update", "move"]))
        if kind == "add":
            parts.append(f"*** Add File: {name}\n+{draw(WORDS)}")
        elif kind == "delete":
            parts.append(f"*** Delete File: {name}")
        else:
            moved = f"*** Move to: {draw(NAMES)}\n" if kind == "move" else ""
            parts.append(f"*** Update File: {name}\n{moved}@@\n-{draw(WORDS)}\n+{draw(WORDS)}")
    patch = "*** Begin Patch\n" + "\n".join(parts) + "\n*** End Patch\n"
    return "ApplyPatch", {"patch": patch, "overwrite": draw(st.booleans())}


# What may stand there as a directory, too.
PLACES = st.sampled_from(["a", "b.sh", "d", "d/c", "d/e", "d/e/f", "g", "g/h", "k", "k/d"])
MOVE = st.tuples(st.just("Move"), st.fixed_dictionaries({"source_path": PLACES, "target_path": PLACES}))
TRASH = st.tuples(st.just("Trash"), st.fixed_dictionaries({"path": PLACES}))

CALLS = st.lists(st.one_of(WRITE, EDIT, MULTI, patches(), MOVE, TRASH), min_size=1, max_size=12)
FOLDERS = st.dictionaries(
    st.sampled_from(["d", "d/e", "d/empty", "k"]), st.sampled_from([0o755, 0o700, 0o750, 0o555]), max_size=4
)
LINKS = st.dictionaries(
    st.sampled_from(["d/to", "d/e/to", "k/to"]), st.sampled_from(["../a", "nowhere", "/", "."]), max_size=2
)
BEFORE = st.dictionaries(st.sampled_from(["a", "b.sh", "d/c", "g"]), st.tuples(TEXTS, MODES), max_size=4)
UNDOS = st.lists(st.integers(0, 11), max_size=2)


# Without shrinking, which would take minutes here: an example is a whole session.
@settings(
    max_examples=sizes.pick(25, 150),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(BEFORE, FOLDERS, LINKS, CALLS, UNDOS)
def test_all_calls_undone_leave_the_tree_as_it_was(
    before: dict[str, tuple[str, int]],
    folders: dict[str, int],
    links: dict[str, str],
    calls: list[tuple[str, dict[str, object]]],
    undos: list[int],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "project")
        root.mkdir()
        for path, (text, mode) in before.items():
            (root / path).parent.mkdir(exist_ok=True)
            (root / path).write_bytes(text.encode("utf-8"))
            (root / path).chmod(mode)
        for path in folders:
            (root / path).mkdir(parents=True, exist_ok=True)
        for path, target in links.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).symlink_to(target)
        for path, mode in folders.items():
            (root / path).chmod(mode)
        was = tree(root)
        journal = SqliteJournal(str(Path(name, "journal.db")))
        with Wired(root, journal) as session:
            for number, (tool, arguments) in enumerate(calls):
                for path in ("a", "b.sh", "d/c", "d/e/f", "g", "g/h"):
                    session.call("Read", {"file_path": path})
                session.call(tool, arguments)
                if number in undos:  # an undo in between is a call like any other
                    session.undo(call=session.rows()[-1].seq)
            then = tree(root)
            asked = max((row.seq for row in session.rows() if row.tool == "Undo"), default=0)
            report = session.undo(session="s")
            assert (report.conflicts, report.missing) == ((), ())
            assert tree(root) == was
            undone = [row.seq for row in session.rows() if row.tool == "Undo"]
            for seq in reversed(undone[undone.index(asked) + 1 :] if asked else undone):
                assert session.undo(call=seq).conflicts == ()
            assert tree(root) == then
        with JournalReader(journal.path) as reader:
            assert reader.verify() is None
        journal.close()
