"""The dialect `anchored`: lines are read with tags, and changed by them, right or not at all."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from handrail.model import Result
from handrail.text.line_tags import label_line
from tests import sizes
from tests.seeds.golden import put

Make = Callable[..., Session]

CODE = "def f():\n    return 1\n\n\ndef g():\n    return 2\n"


@pytest.fixture
def session(make_session: Make) -> Session:
    return make_session(dialect="anchored", durable=False)


def read(session: Session, path: str = "a.py") -> list[str]:
    """The tags of a file's lines."""
    result = session.call("Read", {"file_path": path})
    assert result.ok, result.text
    return [row.split("|", 1)[0] for row in result.text.splitlines()]


def edit(session: Session, *edits: dict[str, Any], path: str = "a.py") -> Result:
    return session.call("Edit", {"file_path": path, "edits": list(edits)})


def test_read_shows_each_line_behind_its_number_and_tag(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.py", CODE)
    assert session.call("Read", {"file_path": "a.py"}).text == (
        "1#ef|def f():\n2#et|    return 1\n3#00|\n4#00|\n5#gp|def g():\n6#b9|    return 2"
    )
    assert session.call("Read", {"file_path": "a.py", "offset": 5}).text == "5#gp|def g():\n6#b9|    return 2"


def test_grep_shows_tags_that_edit_takes_without_a_read(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.py", CODE)
    result = session.call("Grep", {"pattern": "return", "output_mode": "content"})
    assert result.text == "a.py:2#et|    return 1\na.py:6#b9|    return 2"
    around = session.call("Grep", {"pattern": "return 2", "output_mode": "content", "before": 1})
    assert around.text == "a.py-5#gp|def g():\na.py:6#b9|    return 2"
    assert edit(session, {"from": "6#b9", "text": "    return 3"}).ok
    assert (tmp_path / "a.py").read_text() == CODE.replace("return 2", "return 3")
    # Nobody has read the file: it is not overwritten unseen.
    assert session.call("Write", {"file_path": "a.py", "content": "x"}).error is not None


def test_lines_are_replaced_inserted_and_deleted_in_one_call(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.py", CODE)
    tags = read(session)
    result = edit(
        session,
        {"from": tags[4], "to": tags[5], "text": "def h():\n    pass\n"},
        {"after": tags[1], "text": "# one\n# two"},
        {"from": tags[2], "text": ""},
        {"after": "0", "text": "import os\n\n"},
    )
    assert (
        tmp_path / "a.py"
    ).read_text() == "import os\n\ndef f():\n    return 1\n# one\n# two\n\ndef h():\n    pass\n"
    assert result.text.startswith("Edited a.py:\n1#") and result.text.endswith("|    pass")


def test_older_numbers_stay_valid_after_the_models_own_edits(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.py", CODE)
    tags = read(session)
    assert edit(session, {"after": "0", "text": "# a\n# b\n# c"}).ok
    assert edit(session, {"from": tags[5], "text": "    return 9"}).ok
    assert (tmp_path / "a.py").read_text() == "# a\n# b\n# c\n" + CODE.replace("return 2", "return 9")


def test_a_number_that_means_two_lines_is_refused_until_it_is_shown_again(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.py", "a\n\nb\n\nc\n")
    tags = read(session)
    assert edit(session, {"after": "0", "text": "x\n\n"}).ok  # now the lines 2, 4 and 6 are empty
    refused = edit(session, {"from": tags[1], "text": "not the first empty line"})
    assert refused.error and refused.error.code == "bad_anchor" and "another one after it" in refused.text
    assert (tmp_path / "a.py").read_text() == "x\n\na\n\nb\n\nc\n"
    assert edit(session, {"from": tags[1], "text": "the line that the refusal showed"}).ok
    assert (tmp_path / "a.py").read_text().splitlines()[1] == "the line that the refusal showed"


def test_all_edits_are_made_or_none(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.py", CODE)
    tags = read(session)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"from": "6#zz", "text": "x"}, "shown with another tag"),
        ({"from": "77#zz", "text": "x"}, "was not shown"),
        ({"from": "6", "text": "x"}, "not a tag"),
        ({"from": tags[5], "to": tags[3], "text": "x"}, "is before it"),
        ({"from": tags[0], "to": tags[1], "text": "x"}, "also changed by edit 1"),
    ]
    for wrong, words in cases:
        refused = edit(session, {"from": tags[0], "text": "changed"}, wrong)
        assert refused.error and refused.error.code == "bad_anchor" and words in refused.text, refused.text
        assert "edit 2" in refused.text
        assert (tmp_path / "a.py").read_text() == CODE
    assert edit(session, {"text": "x"}).error is not None
    assert edit(session, {"from": tags[0], "after": tags[0], "text": "x"}).error is not None


def test_a_refusal_shows_the_lines_with_tags_that_work(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.py", CODE)
    session.call("Read", {"file_path": "a.py", "limit": 1})
    refused = edit(session, {"from": "6#zz", "text": "    return 3"})
    assert refused.text.endswith("Now there; use these tags:\n3#00|\n4#00|\n5#gp|def g():\n6#b9|    return 2")
    assert edit(session, {"from": "6#b9", "text": "    return 3"}).ok


def test_tags_that_were_copied_into_the_text_are_removed(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.py", CODE)
    tags = read(session)
    result = edit(session, {"from": f"{tags[5]}|    return 2", "text": f"{tags[5]}|    return 3\n7#zz|    # end"})
    assert "(tags at the beginning of 2 new lines were removed)" in result.text
    assert (tmp_path / "a.py").read_text() == CODE.replace("return 2\n", "return 3\n    # end\n")


def test_an_insertion_that_is_sent_twice_is_made_once(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.py", CODE)
    tags = read(session)
    for _ in range(2):
        result = edit(session, {"after": tags[1], "text": "# added"})
        assert result.ok
        assert (tmp_path / "a.py").read_text().count("# added") == 1
    assert result.text.startswith("No change")


def test_placeholders_and_garbled_text_are_refused(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.py", CODE)
    tags = read(session)
    for text in ("def f():\n    # ... rest of the code unchanged ...", "def f():\n    # caf\ufffd"):
        assert edit(session, {"from": tags[0], "to": tags[5], "text": text}).error is not None
    assert (tmp_path / "a.py").read_text() == CODE


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_are_those_of_the_file(session: Session, tmp_path: Path, end: str, last: bool) -> None:
    content = f"a{end}b{end}c" + (end if last else "")
    put(tmp_path, "a.py", content)
    tags = [label_line(number, body) for number, body in enumerate("abc", start=1)]
    session.call("Read", {"file_path": "a.py"})
    assert edit(session, {"from": tags[2], "text": "x\ny"}, {"after": tags[0], "text": "new"}).ok
    assert (tmp_path / "a.py").read_bytes().decode() == f"a{end}new{end}b{end}x{end}y" + (end if last else "")
    again = session.call("Read", {"file_path": "a.py"}).text.splitlines()[-1].split("|")[0]
    assert edit(session, {"after": again, "text": "end"}).ok
    assert (tmp_path / "a.py").read_bytes().decode() == f"a{end}new{end}b{end}x{end}y{end}end" + (end if last else "")


def test_an_empty_file_is_filled_from_the_top(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.py", "")
    session.call("Read", {"file_path": "a.py"})
    assert edit(session, {"after": "0", "text": "one\ntwo"}).ok
    assert (tmp_path / "a.py").read_text() == "one\ntwo\n"


def test_arguments_are_read_as_models_write_them(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.py", CODE)
    tags = read(session)
    one = f'{{"from": "{tags[0]}", "to": null, "text": ["def e():"]}}'
    assert session.call("Edit", {"file_path": "a.py", "edits": f"[{one}]"}).ok
    assert session.call("Edit", {"file_path": "a.py", "edits": {"from": tags[5], "text": "    return 3"}}).ok
    assert (tmp_path / "a.py").read_text() == CODE.replace("f()", "e()").replace("return 2", "return 3")


def test_a_file_that_was_never_shown_must_be_read(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.py", CODE)
    refused = edit(session, {"from": "1#ef", "text": "x"})
    assert refused.error and refused.error.code == "not_seen"


def test_a_long_line_is_cut_and_has_no_tag(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.py", "x" * 3_000 + "\nshort\n")
    rows = session.call("Read", {"file_path": "a.py"}).text.splitlines()
    assert rows[0].startswith("1|xxx") and rows[1].startswith("2#")
    long = label_line(1, "x" * 3_000)
    assert edit(session, {"from": long, "text": "y"}).error is not None


def test_edits_on_files_that_have_changed_since_are_right_or_refused(session: Session, tmp_path: Path) -> None:
    """Generated files with many equal lines; another program adds, removes and changes lines between read and edit."""
    bodies = ("", "}", "    }", "    x = 1", "    return x", "def f():")
    applied = refused = 0
    for seed in range(sizes.pick(60, 2_000)):
        rng = random.Random(seed)
        rows = [
            rng.choice(bodies) if rng.random() < 0.5 else f"    line {number}" for number in range(rng.randint(3, 30))
        ]
        name = f"{seed}.py"
        put(tmp_path, name, "\n".join(rows) + "\n")
        tags = read(session, name)
        first = rng.randrange(len(rows))
        last = min(len(rows) - 1, first + rng.randint(0, 2))
        now = [*enumerate(rows)]
        for _ in range(rng.randint(1, 2)):
            at = rng.randrange(len(now) + 1)
            now[at : at + rng.randint(0, 2)] = [(-1, rng.choice(bodies)) for _ in range(rng.randint(0, 4))]
        put(tmp_path, name, "".join(body + "\n" for _, body in now))
        result = edit(session, {"from": tags[first], "to": tags[last], "text": "NEW"}, path=name)
        after = (tmp_path / name).read_text().splitlines()
        wanted = [number for number, _ in now]
        if result.error:
            refused += 1
            assert after == [body for _, body in now]
            continue
        applied += 1
        at = after.index("NEW")
        moved = wanted[at : at + last - first + 1]
        if moved != list(
            range(first, last + 1)
        ):  # only where the very lines are gone, and equal ones are the only ones
            assert [body for _, body in now[at : at + last - first + 1]] == rows[first : last + 1]
            assert not set(range(first, last + 1)) <= set(wanted)
    assert applied and refused
