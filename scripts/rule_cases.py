"""Cases for `rules.py`: edits and patches whose right outcome is known.

Generated ones come from the tests of this repository. Folders given on the command line may hold more:

    cases-*.jsonl.gz     imperfect edits: {path, content, old, new, replace_all, accept: [[start, end, new], ...]}
    families-*.jsonl.gz  families of mistakes: {family, goal, files, steps, accept: [{name: text}, ...]}
    edits*.jsonl.gz      real edits: {kind, name, before, arguments, after or retry_after}
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from handrail.errors import AlreadyApplied, ToolError
from handrail.text.document import apply_splices, keep_endings
from handrail.text.matching.budget import limit_work
from handrail.text.patches.locate import locate_hunks
from handrail.text.patches.operations import FileOp
from handrail.text.patches.patch import parse_patch
from handrail.tools.edit import plan_replacement
from tests.text import mangle, mangle_patches

RIGHT, REFUSED, WRONG = "right", "refused", "wrong"
Files = dict[str, str]
Row = dict[str, Any]


class Case(NamedTuple):
    """An edit or a patch."""

    source: str
    """Where it comes from: real edits, families, imperfect edits or generated ones."""
    name: str
    judge: Callable[[], str]
    """Run it and return `RIGHT`, `REFUSED` or `WRONG`."""


def list_cases(folders: list[Path], generated: int, seed: int) -> list[Case]:
    """All cases of the folders, and ``generated`` ones of each generator."""
    readers = {"cases-*": _read_imperfect, "families-*": _read_family, "edits*": _read_real}
    cases = []
    for folder in folders:
        for pattern, read in readers.items():
            for path in sorted(folder.glob(f"{pattern}.jsonl.gz")):
                with gzip.open(path, "rt", encoding="utf-8") as rows:
                    cases += [read(json.loads(row), number) for number, row in enumerate(rows)]
    return [*cases, *_generate(generated, seed)]


def _generate(count: int, seed: int) -> Iterator[Case]:
    rng = Random(seed)  # noqa: S311
    makers: list[tuple[str, Callable[[Random], Any], Callable[[Any], tuple[Any, ...]]]] = [
        ("composed", mangle.make_case, mangle.outcome),
        ("literal", mangle.make_literal_case, mangle.outcome),
        ("patches", mangle_patches.make_case, mangle_patches.judge),
    ]
    for source, make, judge in makers:
        made = 0
        while made < count:
            case = make(rng)
            if case is not None:
                made += 1
                yield Case(source, f"{source} {made}: {', '.join(case.kinds)}", partial(_judge_generated, judge, case))


def _judge_generated(judge: Callable[[Any], tuple[Any, ...]], case: Any) -> str:
    verdict = judge(case)[0]
    return verdict if verdict in (REFUSED, WRONG) else RIGHT


def _read_imperfect(row: Row, _: int) -> Case:
    return Case("imperfect", f"{row['class']} {row['id']}", partial(_judge_imperfect, row))


def _judge_imperfect(row: Row) -> str:
    text = row["content"]
    result = _edit(text, row["old"], row["new"], row["replace_all"], row["path"])
    accepted = [text[:start] + new + text[end:] for start, end, new in row["accept"]]
    return _compare(result, text, accepted)


def _compare(result: object, before: object, accepted: list[Any]) -> str:
    if result == before:
        return REFUSED
    return RIGHT if result in accepted else WRONG


def _edit(text: str, old: str, new: str, replace_all: bool, path: str) -> str:
    """The file after an edit; the same if it was refused."""
    try:
        plan = plan_replacement(text, old, new, replace_all, "forgiving", path)
    except ToolError:
        return text
    return apply_splices(text, plan.splices)


def _read_real(row: Row, number: int) -> Case:
    return Case("real", f"{row['kind']} {number} {row['name']}", partial(_judge_real, row))


def _judge_real(row: Row) -> str:
    before, wanted = row["before"], row.get("after", row.get("retry_after"))
    arguments = row["arguments"]
    replace_all = bool(arguments.get("replace_all", False))
    result = _edit(before, arguments["old_string"], arguments["new_string"], replace_all, row["name"])
    return _compare(result, before, [result if wanted is None else wanted])


def _read_family(row: Row, _: int) -> Case:
    return Case("families", f"{row['family']} {row['id']} {row['goal']}", partial(_judge_family, row))


def _judge_family(row: Row) -> str:
    before: Files = row["files"]
    after = dict(before)
    for step in row["steps"]:
        after = _take_step(after, step)
    accepted = [{name: text for name, text in {**before, **good}.items() if text is not None} for good in row["accept"]]
    return _compare(after, before, [] if row["goal"] == "refuse" else accepted)


def _take_step(files: Files, step: Row) -> Files:
    """The files after a call; the same if it was refused."""
    name = next(iter(files))
    try:
        if step["tool"] == "patch":
            return _apply(files, step["patch"].replace("{ROOT}/", ""))
        edits = step["edits"] if step["tool"] == "multi" else [step]
        return {**files, name: _edit_many(files[name], edits, name)}
    except ToolError:
        return files


def _edit_many(text: str, edits: list[Row], path: str) -> str:
    known: dict[str, str] = {}
    with limit_work():
        for edit in edits:
            try:
                plan = plan_replacement(
                    text, edit["old"], edit["new"], edit.get("replace_all", False), "forgiving", path, known=known
                )
            except AlreadyApplied:
                continue
            text = apply_splices(text, plan.splices)
    return text


def _apply(files: Files, patch: str) -> Files:
    """The files after a patch; raises `ToolError`."""
    after = dict(files)
    with limit_work():
        for op in parse_patch(patch):
            path, target = (_find_name(name, after) for name in (op.path, op.move_to or op.path))
            if (op.kind == "add") is (path in after and not op.rewrites) or (target != path and target in after):
                return files
            text = after.pop(path, "")
            if op.kind == "add":
                after[path] = keep_endings(text, 0, len(text), _make_content(op))
            elif op.kind == "update":
                after[target] = apply_splices(text, locate_hunks(text, op.hunks, op.final_newline).splices)
            elif op.hunks and apply_splices(text, locate_hunks(text, op.hunks).splices).strip("\r\n"):
                return files
    return after


def _find_name(name: str, files: Files) -> str:
    """A path without `./` and git's prefix, if a file has that name."""
    name = name.removeprefix("./")
    return name[2:] if name not in files and name[:2] in ("a/", "b/") and name[2:] in files else name


def _make_content(op: FileOp) -> str:
    content = "".join(line + "\n" for line in op.content)
    return content.removesuffix("\n") if op.final_newline is False else content
