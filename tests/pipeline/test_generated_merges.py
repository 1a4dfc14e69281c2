"""Generated merges: the same bytes where `git merge-file` merges, and a conflict where it does not."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from handrail.drafts.compare import ChangedOutside
from handrail.drafts.three_way import Sides
from handrail.pipeline.merging import merge_sides
from handrail.shell.git.merging import MergeRule, OverlapSides, Parts, split_merge
from tests.sizes import pick


def make_sides(base: bytes | None, ours: bytes, theirs: bytes) -> Sides:
    return Sides("file", base, ours, theirs, (0, 0, 0, 0), 0o644)


def change(lines: list[bytes], words: list[bytes], rng: random.Random) -> list[bytes]:
    lines = list(lines)
    for _ in range(rng.randint(0, 4)):
        at, how = rng.randint(0, len(lines)), rng.choice(["insert", "delete", "replace"])
        stop = at if how == "insert" else at + rng.randint(1, 3)
        lines[at:stop] = [] if how == "delete" else rng.choices(words, k=rng.randint(1, 3))
    return lines


MARKERS = [b"<<<<<<< draft", b"||||||| base", b"=======", b">>>>>>> workspace", b"<<<<<<<<< draft", b"=" * 40]


def generate(rng: random.Random) -> list[bytes]:
    """The draft's side, the base and the workspace's side."""
    end = rng.choice([b"\n", b"\r\n", b"\n"])
    words = [b"word %d" % number + end for number in range(rng.choice([5, 50, 5000]))]
    words += [end, b"\xff\xfe latin" + end, b"mixed" + rng.choice([b"\n", b"\r\n"])]
    if rng.random() < 0.2:
        words += [marker + end for marker in MARKERS] * (len(words) // 10 + 1)
    base = rng.choices(words, k=rng.randint(0, 60))
    sides = []
    for lines in (change(base, words, rng), base, change(base, words, rng)):
        raw = b"".join(lines)
        sides.append(raw.removesuffix(b"\n") if rng.random() < 0.1 else raw)
    return sides


def merge_file(place: Path, sides: list[bytes], *options: str) -> subprocess.CompletedProcess[bytes]:
    names = "ours", "base", "theirs"
    for name, raw in zip(names, sides, strict=True):
        (place / name).write_bytes(raw)
    words = ["git", "merge-file", "-p", "-q", *options, *names]
    return subprocess.run(words, cwd=place, capture_output=True, check=False)


def join(parts: Parts, sides: Iterable[str]) -> bytes:
    left = iter(sides)
    return b"".join(getattr(part, next(left)) if isinstance(part, OverlapSides) else part for part in parts)


@pytest.mark.parametrize("seed", range(pick(60, 1000)))
def test_a_merge_is_that_of_git(seed: int, tmp_path: Path) -> None:
    sides = generate(random.Random(seed))
    git = merge_file(tmp_path, sides)
    merged = merge_sides(make_sides(sides[1], sides[0], sides[2]), MergeRule())
    if git.returncode:
        assert isinstance(merged, ChangedOutside)
        assert "<<<<<<<" in merged.sides
    else:
        assert merged == git.stdout


@pytest.mark.parametrize("seed", range(pick(60, 1000)))
def test_the_chosen_sides_of_overlaps_are_those_of_git(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    ours, base, theirs = sides = generate(rng)
    parts = split_merge(base, ours, theirs)
    overlaps = [part for part in parts if isinstance(part, OverlapSides)]
    assert join(parts, ["ours"] * len(overlaps)) == merge_file(tmp_path, sides, "--ours").stdout
    assert join(parts, ["theirs"] * len(overlaps)) == merge_file(tmp_path, sides, "--theirs").stdout
    if not merge_file(tmp_path, sides).returncode:
        return
    assert overlaps
    for part in overlaps:
        assert part.ours in ours and part.base in base and part.theirs in theirs
        lines = [line for side in (part.ours, part.theirs) for line in side.splitlines()]
        assert part.both.splitlines() == lines
    sides_chosen = [rng.choice(["ours", "theirs", "both"]) for _ in overlaps]
    lines_chosen = Counter(join(parts, sides_chosen).splitlines())
    plain = Counter(join(parts, ["ours"] * len(overlaps)).splitlines())
    for part, side in zip(overlaps, sides_chosen, strict=True):
        plain.subtract(part.ours.splitlines())
        plain.update(getattr(part, side).splitlines())
    assert lines_chosen == +plain


def test_changes_of_adjacent_lines_are_a_conflict() -> None:
    base = b"1\n2\n3\n4\n"
    for ours, theirs in ((b"1\nx\n3\n4\n", b"1\n2\ny\n4\n"), (base + b"x\n", base + b"y\n"), (b"1\nx\n", b"1\n2\n3\n")):
        assert isinstance(merge_sides(make_sides(base, ours, theirs), MergeRule()), ChangedOutside)


def test_without_a_base_nothing_is_merged() -> None:
    for ours, theirs in ((b"1\n2\n", b"1\n3\n"), (b"", b"1\n"), (b"1\n", b"")):
        assert isinstance(merge_sides(make_sides(None, ours, theirs), MergeRule()), ChangedOutside)


def test_a_binary_file_is_not_merged() -> None:
    base, ours, theirs = (b"1\n2\n3\n4\n5\n\0%s\n6\n7\n8\n" % word for word in (b"", b"", b""))
    ours, theirs = b"0\n" + ours, theirs + b"9\n"
    assert isinstance(merge_sides(make_sides(base, ours, theirs), MergeRule()), ChangedOutside)


def test_both_additions_to_an_ignored_log_are_kept() -> None:
    sides = make_sides(b"1\n", b"1\nours\n", b"1\ntheirs\n")
    assert merge_sides(sides, MergeRule(ignored=True)) == b"1\ntheirs\nours\n"
    assert isinstance(merge_sides(sides, MergeRule()), ChangedOutside)
