"""Adapters: the code of a dialect lies in its folder, is inherited, and runs only if a package brought it."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from handrail import Session, dialects, tools
from handrail.dialects import DialectError
from handrail.dialects.check import check
from tests.command import handrail
from tests.test_architecture import ROOT, modules_after

Make = Callable[..., Session]

SHOUT = """
from dataclasses import dataclass

from handrail.tools import read


@dataclass(frozen=True, slots=True)
class Limits(read.Limits):
    mark: str = "!"


def run(args, ctx):
    return read.run(args, ctx)


def render(outcome, templates):
    return read.render(outcome, templates).upper() + "!"


TOOL = read.TOOL.adapt(Limits, run, render)
"""
DIALECT = '[tools.show]\nid = "read"\nadapter = "shout.py"\n'
ADAPTERS = [
    (name, shown, entry.adapter)
    for name in dialects.names()
    for shown, entry in dialects.load(name).entries.items()
    if entry.adapter
]


def write(folder: Path, tools: str, **files: str) -> str:
    """A dialect folder; `shout__py="..."` writes shout.py."""
    folder.mkdir(parents=True)
    (folder / "tools.toml").write_text(tools, encoding="utf-8")
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return str(folder)


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that registers the dialect `loud`, whose folder has a dash in its name."""
    package = tmp_path / "package"
    folder = package / "loud_tools" / "loud-dialect"
    write(folder, DIALECT, shout__py=SHOUT)
    (package / "loud_tools" / "__init__.py").write_text(f"FOLDER = {str(folder)!r}\n", encoding="utf-8")
    info = package / "loud-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[handrail.dialects]\nloud = loud_tools:FOLDER\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.delitem(sys.modules, "loud_tools", raising=False)
    dialects.load.cache_clear()
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    return project


@pytest.mark.parametrize(("name", "shown", "file"), ADAPTERS)
def test_an_adapter_of_a_shipped_dialect_keeps_id_arguments_and_accesses(name: str, shown: str, file: str) -> None:
    dialect = dialects.load(name)
    tool, plain = dialect.tool(shown), tools.load(dialect.entry(shown).id)
    assert tool is not plain and tool.id == plain.id
    assert issubclass(tool.args, plain.args)
    assert (tool.accesses, tool.seek, tool.hints) == (plain.accesses, plain.seek, plain.hints)
    assert tool.run.__module__ == f"handrail.dialects.{name}.{file.removesuffix('.py')}"


def test_every_python_file_of_a_shipped_dialect_is_one_of_its_adapters() -> None:
    files = {(path.parent.name, path.name) for path in dialects.HERE.glob("*/*.py") if path.name != "__init__.py"}
    assert files == {(name, file) for name, _, file in ADAPTERS} and files


def imports_above(source: str) -> set[str]:
    """The packages of Handrail that a module imports, and that do not lie below the dialects."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [one for one in settings["tool"]["importlinter"]["contracts"] if one["type"] == "layers"]
    layers = [{name.strip() for name in layer.split("|")} for layer in contract["layers"]]
    (own,) = [number for number, layer in enumerate(layers) if "dialects" in layer]
    below = {"dialects"}.union(*layers[own + 1 :])
    modules = re.findall(r"^\s*(?:from|import) handrail\.(\w+)", source, re.MULTILINE)
    modules += re.findall(r"^\s*from handrail import (\w+)", source, re.MULTILINE)
    return set(modules) - below


def test_adapters_import_only_packages_below_the_dialects() -> None:
    """import-linter does not look into folders with a dash in their names; this test does."""
    for path in dialects.HERE.glob("*/*.py"):
        assert imports_above(path.read_text(encoding="utf-8")) == set(), path
    assert imports_above("from handrail.journal import Journal\n    from handrail import pipeline\n") == {
        "journal",
        "pipeline",
    }


def test_no_switch_of_a_tool_serves_one_dialect_alone() -> None:
    """A switch that one dialect sets belongs into an adapter of that dialect."""
    users: dict[str, set[str]] = {}
    for name in dialects.names():
        dialect = dialects.load(name)
        for shown, entry in dialect.entries.items():
            switches = {one.name for one in fields(tools.load(entry.id).limits) if one.type == "bool"}
            given = {one: getattr(dialect.limits(shown), one, None) for one in switches}
            plain = tools.load(entry.id).limits()
            for switch in switches:
                users.setdefault(switch, set())
                if given[switch] is not None and given[switch] != getattr(plain, switch):
                    users[switch].add(name)
    assert "needs_reading" in users
    assert {switch: names for switch, names in users.items() if len(names) < 2} == {}


def test_a_limit_in_seconds_takes_whole_numbers(tmp_path: Path) -> None:
    mine = write(tmp_path / "mine", 'extends = "native"\n[tools.Glob]\nlimits = { seconds = 5 }\n')
    assert dialects.load(mine).limits("Glob").seconds == 5


def test_an_adapter_is_inherited(tmp_path: Path, root: Path, make_session: Make) -> None:
    mine = write(tmp_path / "mine", 'extends = "claw"\n[tools.read_file]\nlimits = { bytes = 5 }\n')
    assert check(Path(mine)) == []
    assert make_session(root, mine).call("read_file", {"path": "a.txt"}).text.startswith("one\nt\n\n...")
    second = write(tmp_path / "second", 'extends = "../mine"\n')
    assert make_session(root, second).call("read_file", {"path": "a.txt"}).text.startswith("one\nt\n\n...")


def test_an_empty_adapter_goes_back_to_the_tool_itself(tmp_path: Path) -> None:
    mine = write(tmp_path / "mine", 'extends = "claw"\n[tools.read_file]\nadapter = ""\n')
    assert check(Path(mine)) == []
    assert dialects.load(mine).tool("read_file") is tools.load("read")


def test_another_id_does_not_inherit_the_adapter(tmp_path: Path) -> None:
    mine = write(tmp_path / "mine", 'extends = "claw"\n[tools.read_file]\nid = "ls"\n')
    assert dialects.load(mine).tool("read_file") is tools.load("ls")


def test_a_folder_that_is_given_by_its_path_runs_no_code(tmp_path: Path, root: Path) -> None:
    trap = f"open({str(tmp_path / 'ran')!r}, 'w')\n" + SHOUT
    mine = write(tmp_path / "mine", DIALECT, shout__py=trap, __init____py=trap)
    below = write(tmp_path / "below", 'extends = "../mine"\n')
    for folder in (mine, below):
        with pytest.raises(DialectError, match="installed packages"):
            dialects.load(folder)
        with pytest.raises(DialectError, match="installed packages"):
            Session(root, dialect=folder)
    assert [(one.line, "installed packages" in one.text) for one in check(Path(mine))] == [(3, True)]
    done = handrail("dialects", "check", mine, cwd=tmp_path)
    assert done.returncode == 1 and b"tools.toml:3:" in done.stderr
    done = handrail("call", "--dialect", mine, "show", "file_path=a.txt", cwd=root)
    assert done.returncode == 2 and b"installed packages" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_python_file_beside_an_inherited_adapter_is_not_imported(
    tmp_path: Path, root: Path, make_session: Make
) -> None:
    trap = f"open({str(tmp_path / 'ran')!r}, 'w')\n" + SHOUT
    mine = write(tmp_path / "mine", 'extends = "claw"\n', read_file__py=trap)
    assert make_session(root, mine).call("read_file", {"path": "a.txt"}).text == "one\ntwo\n"
    assert check(Path(mine)) == [] and not (tmp_path / "ran").exists()


def test_a_copy_of_a_shipped_folder_is_data_too(tmp_path: Path) -> None:
    text = (dialects.HERE / "claw" / "tools.toml").read_text(encoding="utf-8")
    with pytest.raises(DialectError, match="installed packages"):
        dialects.load(write(tmp_path / "claw", text, read_file__py=SHOUT, bash__py=SHOUT))


def test_a_link_to_a_shipped_folder_is_followed_once(tmp_path: Path, root: Path, make_session: Make) -> None:
    link = tmp_path / "link"
    link.symlink_to(dialects.HERE / "claw")
    session = make_session(root, str(link))
    link.unlink()
    trap = f"open({str(tmp_path / 'ran')!r}, 'w')\n" + SHOUT
    write(link, DIALECT, read_file__py=trap)
    assert session.call("read_file", {"path": "a.txt"}).text == "one\ntwo\n"
    assert not (tmp_path / "ran").exists()


def test_a_registered_dialect_brings_its_adapter(
    tmp_path: Path, root: Path, make_session: Make, registered: Path
) -> None:
    assert make_session(root, "loud").call("show", {"file_path": "a.txt"}).text == "     1\tONE\n     2\tTWO!"
    assert check(registered, installed=True) == []
    done = handrail("dialects", "check", "loud", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    mine = write(tmp_path / "mine", 'extends = "loud"\n[tools.show]\nlimits = { mark = "?" }\n')
    assert make_session(root, mine).call("show", {"file_path": "a.txt"}).text.endswith("TWO!")
    assert dialects.load(mine).limits("show").mark == "?"


def test_a_registered_folder_that_is_named_by_its_path_is_data(registered: Path) -> None:
    with pytest.raises(DialectError, match="installed packages"):
        dialects.load(str(registered))


@pytest.mark.parametrize(
    ("adapter", "text", "expected"),
    [
        ('"../loud_tools/__init__.py"', SHOUT, "such as read_file.py"),
        ('"shout"', SHOUT, "such as read_file.py"),
        ('"other.py"', SHOUT, "no adapter other.py"),
        ('"shout.py"', "TOOL = 3\n", "defines TOOL"),
        ('"shout.py"', SHOUT.replace("read.TOOL", "__import__('handrail.tools.ls').tools.ls.TOOL"), "id='read'"),
        ('"shout.py"', "import no_such_module\n", "no_such_module"),
        ('"shout.py"', "def (\n", "cannot be loaded"),
    ],
)
def test_the_mistakes_of_an_adapter_are_reported(registered: Path, adapter: str, text: str, expected: str) -> None:
    (registered / "tools.toml").write_text(DIALECT.replace('"shout.py"', adapter), encoding="utf-8")
    (registered / "shout.py").write_text(text, encoding="utf-8")
    (problem,) = check(registered, installed=True)
    assert problem.line == 3 and expected in problem.text


def test_an_adapter_is_imported_when_its_tool_is_used(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    start = f"from handrail import Session\nsession = Session({str(tmp_path)!r}, dialect='claw')\n"
    call = "assert session.call('read_file', {'path': 'a.txt'}).text == 'one\\n'\n"
    modules = "sys.modules['x'] = 0\n" + "for one in list(sys.modules): sys.modules[one.replace('.', '-')] = 0\n"
    assert not {"handrail-dialects-claw", "handrail-dialects-adapters"} & modules_after(start + modules)
    after = modules_after(start + call + modules)
    assert "handrail-dialects-claw-read_file" in after and "handrail-dialects-claw-bash" not in after
    native = start.replace("claw", "native") + "session.call('Read', {'file_path': 'a.txt'})\n"
    assert "handrail-dialects-adapters" not in modules_after(native + modules)
