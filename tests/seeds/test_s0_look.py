"""S0-5, S0-10 to S0-12 and S0-23 to S0-25: ls, glob and pictures in the dialect `deepagents`."""

from __future__ import annotations

import base64
import io
import mimetypes
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from handrail import Session, dialects
from tests.media.test_pdf import make_pdf
from tests.seeds.golden import put

Make = Callable[..., Session]


@pytest.fixture
def agent(make_session: Make) -> Session:
    return make_session(dialect="deepagents", durable=False)


def test_s0_5_glob_answers_with_absolute_paths_newest_first(agent: Session, tmp_path: Path) -> None:
    for age, name in enumerate(("src/new.py", "old.py")):
        os.utime(put(tmp_path, name, ""), ns=(10**18 - age * 10**9,) * 2)
    assert agent.call("glob", {"pattern": "**/*.py"}).text == f"{tmp_path}/src/new.py\n{tmp_path}/old.py"


@pytest.mark.parametrize(("suffix", "form"), [(".png", "PNG"), (".jpg", "JPEG"), (".gif", "GIF"), (".webp", "WEBP")])
def test_s0_10_a_picture_comes_as_a_block_that_names_its_type(
    agent: Session, tmp_path: Path, suffix: str, form: str
) -> None:
    Image.new("RGB", (8, 4), "red").save(tmp_path / f"a{suffix}", form)
    result = agent.call("read_file", {"file_path": str(tmp_path / f"a{suffix}")}, id="call-7")
    (picture,) = result.blocks
    assert (result.id, result.tool, result.status) == ("call-7", "read_file", "ok")
    assert set(picture) == {"type", "base64", "mime_type"}
    assert picture["type"] == "image"
    with Image.open(io.BytesIO(base64.b64decode(picture["base64"]))) as opened:
        assert (opened.size, opened.format) == ((8, 4), form)


def test_s0_51_a_picture_is_one_block_and_nothing_else(agent: Session, tmp_path: Path) -> None:
    Image.new("RGB", (8, 4), "red").save(tmp_path / "a.png")
    for _ in range(2):  # the second time it has been seen before
        result = agent.call("read_file", {"file_path": "/a.png"})
        assert [set(block) for block in result.blocks] == [{"type", "base64", "mime_type"}]


@pytest.mark.parametrize(("suffix", "form"), [(".png", "PNG"), (".jpg", "JPEG"), (".gif", "GIF"), (".webp", "WEBP")])
def test_s0_11_the_type_is_the_one_that_the_suffix_stands_for(
    agent: Session, tmp_path: Path, suffix: str, form: str
) -> None:
    Image.new("RGB", (8, 4), "red").save(tmp_path / f"a{suffix}", form)
    result = agent.call("read_file", {"file_path": str(tmp_path / f"a{suffix}")})
    assert result.blocks[0]["mime_type"] == mimetypes.guess_type("file" + suffix)[0]


def test_s0_12_pages_of_a_pdf(agent: Session, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(make_pdf(*(f"page {number}" for number in range(1, 31)), box=b"0 0 60 60"))
    result = agent.call("read_file", {"file_path": str(tmp_path / "a.pdf"), "pages": "1-5"})
    assert result.data["pages"] == [1, 2, 3, 4, 5]
    assert [block["type"] for block in result.blocks] == ["text"] + ["image"] * 5


def test_s0_12_at_most_twenty_pages_a_request(agent: Session, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(make_pdf(*(f"page {number}" for number in range(1, 31)), box=b"0 0 60 60"))
    assert len(agent.call("read_file", {"file_path": str(tmp_path / "a.pdf"), "pages": "3-22"}).data["pages"]) == 20
    result = agent.call("read_file", {"file_path": str(tmp_path / "a.pdf"), "pages": "1-21"})
    assert result.error and result.error.code == "bad_pages" and "at most 20" in result.text


def test_s0_23_glob_takes_a_pattern_and_a_path_that_begins_at_the_root(agent: Session, tmp_path: Path) -> None:
    schema = dialects.load("deepagents").spec("glob").schema
    assert list(schema["properties"]) == ["pattern", "path"] and schema["properties"]["path"]["default"] == "/"
    for name in ("a.py", "ab.py", "src/c.py"):
        put(tmp_path, name, "")

    def names(**arguments: str) -> set[str]:
        return {Path(line).name for line in agent.call("glob", arguments).text.splitlines()}

    # The document says nothing about a pattern without a slash, or with a leading one: as in deepagents itself.
    assert names(pattern="*.py") == names(pattern="*.py", path="/") == {"a.py", "ab.py", "c.py"}
    assert names(pattern="?.py") == {"a.py", "c.py"}
    assert names(pattern="/*.py") == names(pattern=f"{tmp_path}/*.py") == {"a.py", "ab.py"}
    assert names(pattern="/src/*.py") == names(pattern="src/*.py") == {"c.py"}
    assert names(pattern="/*.py", path=str(tmp_path / "src")) == {"c.py"}
    assert names(pattern="**/*.py") == {"a.py", "ab.py", "c.py"}
    assert names(pattern="*.py", path=str(tmp_path / "src")) == {"c.py"}


def test_s0_24_a_search_that_takes_too_long_says_so(agent: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agent.dialect.limits("glob").seconds == 20.0
    monkeypatch.setattr("handrail.search.receipt.Budget.spent", lambda *_: "time_limit")
    result = agent.call("glob", {"pattern": "**/*"})
    assert result.text == "Error: glob timed out after 20.0s. Try a more specific pattern."
    assert result.status == "error"


def test_s0_25_too_many_paths_are_cut_on_purpose(agent: Session, tmp_path: Path) -> None:
    for number in range(120):
        put(tmp_path, f"f{number}.py", "")
    result = agent.call("glob", {"pattern": "*.py"})
    assert len(result.data["paths"]) == 100 and result.status == "partial"
    assert "20 more of 120" in result.text
