"""A patch that was cut off anywhere leaves the files as they are, unless what is left is complete in itself.

Patches are generated in every format. Their writer knows at which lengths a prefix is complete, and what it must leave.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from handrail import Session
from tests.sizes import pick, spread

Files = dict[str, str]
PATCHES = pick(5, 200)
"""Of each of the six formats."""
INSIDE = 5
"""Places inside each line at which a patch is cut."""
WORDS = ["return", "value", "= [", "}", "# note", "----", "++i", "@@", "*** ", "=======", "\\", '"x"', "é"]


@dataclass
class Written:
    """A patch, and the prefixes of it that are complete: their length, and the files that they leave."""

    before: Files
    text: str = ""
    complete: dict[int, Files] = field(default_factory=dict)

    def add(self, text: str) -> None:
        self.text += text

    def mark(self, files: Files, without: int = 0) -> None:
        """What was added so far is complete; also without its last characters, if they are not needed."""
        for length in range(len(self.text) - without, len(self.text) + 1):
            self.complete[length] = dict(files)


@dataclass
class FileEdit:
    """Lines of a file, and runs of them that are replaced."""

    name: str
    lines: list[str]
    changes: list[tuple[int, int, list[str]]]

    def after(self, count: int) -> str:
        """The file with the first changes made."""
        lines = list(self.lines)
        for start, end, new in reversed(self.changes[:count]):
            lines[start:end] = new
        return join(lines)

    def rows(self, number: int) -> tuple[int, int, list[str]]:
        """A change as the rows of a hunk with up to two lines of context, and where it begins in both files."""
        start, end, new = self.changes[number]
        head, tail = max(0, start - 2), min(len(self.lines), end + 2)
        rows = [f" {line}" for line in self.lines[head:start]]
        rows += [f"-{line}" for line in self.lines[start:end]] + [f"+{line}" for line in new]
        rows += [f" {line}" for line in self.lines[end:tail]]
        shift = sum(len(fresh) - (stop - first) for first, stop, fresh in self.changes[:number])
        return head + 1, head + 1 + shift, rows


def join(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def make_line(chance: random.Random, name: str, number: int) -> str:
    if chance.random() < 0.15:
        return ""
    words = chance.choices(WORDS, k=chance.randint(0, 3))
    return "    " * chance.randint(0, 2) + " ".join([*words, f"{name}{number:03}."])  # no line begins another one


def make_edits(chance: random.Random, most: int = 3) -> list[FileEdit]:
    edits = []
    for name in chance.sample(["a.py", "src/b.txt", "c.md"], chance.randint(1, most)):
        lines = [make_line(chance, name[-4:-2], number) for number in range(chance.randint(6, 24))]
        changes: list[tuple[int, int, list[str]]] = []
        floor = 1
        while floor + 6 < len(lines) or not changes:
            start = chance.randint(floor, min(floor + 4, len(lines) - 1))
            lines[start - 1] = f"unique {name} {start}."  # so that each hunk has one place
            end = min(len(lines), start + chance.randint(0, 3))
            new = [make_line(chance, "new", 10 * start + count) for count in range(chance.randint(0, 3))]
            if new != lines[start:end] and (new or end > start):
                changes.append((start, end, new))
            floor = end + 5
            if floor >= len(lines):
                break
        edits.append(FileEdit(name, lines, changes or [(0, 1, ["first."])]))
    return edits


def start_patch(edits: list[FileEdit]) -> Written:
    return Written({edit.name: join(edit.lines) for edit in edits})


def write_envelope(chance: random.Random) -> Written:
    edits = make_edits(chance)
    patch = start_patch(edits)
    files = dict(patch.before)
    patch.add("*** Begin Patch\n")
    if chance.random() < 0.5:
        patch.add("*** Add File: new.txt\n+one.\n+\n+two.\n")
        files["new.txt"] = "one.\n\ntwo.\n"
    for edit in edits:
        patch.add(f"*** Update File: {edit.name}\n")
        for number in range(len(edit.changes)):
            patch.add("@@\n" + join(edit.rows(number)[2]))
        files[edit.name] = edit.after(len(edit.changes))
    if chance.random() < 0.3:
        patch.add("*** Delete File: old.txt\n")
        patch.before["old.txt"] = "one.\n"
    patch.add("*** End Patch\n")
    patch.mark(files, without=1)
    return patch


def write_unified(chance: random.Random, *, counts: bool = True, git: bool = False) -> Written:
    edits = make_edits(chance)
    patch = start_patch(edits)
    files = dict(patch.before)
    for edit in edits:
        moved = f"moved/{edit.name}" if git and chance.random() < 0.3 else edit.name
        if git:
            patch.add(f"diff --git a/{edit.name} b/{moved}\n")
            if moved != edit.name:
                patch.add(f"similarity index 88%\nrename from {edit.name}\nrename to {moved}\n")
            patch.add("index 1234567..89abcde 100644\n")
        patch.add(f"--- a/{edit.name}\n+++ b/{moved}\n")
        for number in range(len(edit.changes)):
            old_start, new_start, rows = edit.rows(number)
            old, new = (sum(row[0] != sign for row in rows) for sign in "+-")
            patch.add(f"@@ -{old_start},{old} +{new_start},{new} @@\n" if counts else "@@\n")
            for count, row in enumerate(rows, start=1):
                patch.add(row + "\n")
                changes = any(one[0] in "+-" for one in rows[:count])
                if count == len(rows) or (not counts and changes):
                    part = replay(edit, number, rows[:count])
                    files.pop(edit.name, None)
                    files[moved] = part
                    patch.mark(files, without=0 if row[0] == "+" or row == "-" else 1)
    if git and chance.random() < 0.5:
        patch.add("diff --git a/new.txt b/new.txt\nnew file mode 100644\nindex 0000000..1234567\n")
        patch.add("--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+one.\n+two.\n")
        files["new.txt"] = "one.\ntwo.\n"
        patch.mark(files)
    if git and chance.random() < 0.5:
        patch.before["old.txt"] = "one.\ntwo.\n"
        for kept in patch.complete.values():
            kept["old.txt"] = "one.\ntwo.\n"
        patch.add("diff --git a/old.txt b/old.txt\ndeleted file mode 100644\nindex 1234567..0000000\n")
        patch.add("--- a/old.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one.\n-two.\n")
        patch.mark({name: text for name, text in files.items() if name != "old.txt"}, without=1)
    return patch


def replay(edit: FileEdit, number: int, rows: list[str]) -> str:
    """The file after the changes before this one, and after some rows of this one."""
    start = edit.changes[number][0]
    done = FileEdit(edit.name, edit.lines, edit.changes[:number])
    removed = sum(row[0] == "-" for row in rows)
    added = [row[1:] for row in rows if row[0] == "+"]
    done.changes.append((start, start + removed, added))
    return done.after(number + 1)


def write_blocks(chance: random.Random) -> Written:
    edits = make_edits(chance)
    patch = start_patch(edits)
    files = dict(patch.before)
    patch.add("*** Begin Patch\n")
    for edit in edits:
        patch.add(f"*** Update File: {edit.name}\n")
        for number in range(len(edit.changes)):
            rows = edit.rows(number)[2]
            old, new = ([row[1:] for row in rows if row[0] != sign] for sign in "+-")
            patch.add(f"<<<<<<< SEARCH\n{join(old)}=======\n{join(new)}>>>>>>> REPLACE\n")
            patch.add("\n" * chance.randint(0, 1))
        files[edit.name] = edit.after(len(edit.changes))
    patch.add("*** End Patch\n")
    patch.mark(files, without=1)
    return patch


def write_framed(chance: random.Random) -> Written:
    inner = chance.choice([write_envelope, write_unified, write_unified_without_counts])(chance)
    whole = inner.complete[len(inner.text)]
    patch = Written(inner.before)
    kind = chance.choice(["fence", "here-document", "JSON", "envelope"])
    if kind == "envelope" and not inner.text.startswith("***"):
        patch.add(f"*** Begin Patch\n{inner.text}*** End Patch\n")
    elif kind == "JSON":
        patch.add(json.dumps(inner.text))
        patch.mark(whole)
        return patch
    elif kind == "here-document":
        patch.add(f"apply_patch <<'EOF'\n{inner.text}EOF\n")
    else:
        patch.add(f"```diff\n{inner.text}```\n")
    patch.mark(whole, without=1)
    return patch


def write_unified_without_counts(chance: random.Random) -> Written:
    return write_unified(chance, counts=False)


def write_git(chance: random.Random) -> Written:
    return write_unified(chance, git=True)


WRITERS: list[Callable[[random.Random], Written]] = [
    write_envelope,
    write_unified,
    write_unified_without_counts,
    write_git,
    write_blocks,
    write_framed,
]


def read_tree(root: Path) -> Files:
    return {str(path.relative_to(root)): path.read_bytes().decode() for path in root.rglob("*") if path.is_file()}


def write_tree(root: Path, files: Files) -> None:
    for path in root.rglob("*"):
        if path.is_file():
            path.unlink()
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def list_lengths(patch: Written) -> Iterator[int]:
    """Each line break, and places inside each line; those around complete prefixes; in a bounded run some of them."""
    text = patch.text
    near = {length + step for length in patch.complete for step in (-2, -1, 0, 1, 2, 3, 4, 5)}
    inside, start = set[int](), 0
    for line in text.splitlines(keepends=True):
        end = start + len(line)
        inside |= {start, end - 1} | {start + len(line) * part // (INSIDE + 1) for part in range(1, INSIDE + 1)}
        start = end
    yield from sorted({*spread(sorted(near), 40), *spread(sorted(inside), 40)} & {*range(len(text))})


@pytest.mark.timeout(7200)  # the full sample is some 50,000 calls for each format
@pytest.mark.parametrize("write", WRITERS)
def test_a_patch_that_is_cut_off_changes_nothing(
    write: Callable[[random.Random], Written], make_session: Callable[..., Session], tmp_path: Path
) -> None:
    session = make_session(durable=False, mode="full")
    for seed in range(PATCHES):
        patch = write(random.Random(f"{write.__name__} {seed}"))
        left: Files = {}
        for length in [*list_lengths(patch), len(patch.text)]:
            if left != patch.before:
                write_tree(tmp_path, patch.before)
                for name in patch.before:
                    session.call("Read", {"file_path": name})
            sent = patch.text[:length]
            result = session.call("ApplyPatch", {"patch": sent})
            left = read_tree(tmp_path)
            if length == len(patch.text):
                assert result.ok and left == patch.complete[length], (seed, sent, result.text)
            elif left != patch.before:
                assert left == patch.complete.get(length), (seed, length, sent, result.text)
                assert result.ok
