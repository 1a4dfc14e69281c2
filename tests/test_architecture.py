"""The architecture holds: layers, no import cycles, the shape of a tool, cheap imports, complete messages."""

from __future__ import annotations

import ast
import json
import re
import string
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

from handrail import dialects, errors, tools
from handrail.tools.notes import iterate_notes
from tests.command import TIMEOUT

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "handrail"
PYTHON_FILES = sorted(SRC.rglob("*.py"))
HEAVY = {"mcp", "openai", "anthropic", "starlette", "PIL", "pypdfium2", "nbformat", "rich"}
ALWAYS_KNOWN = {"tool", "verb", "path"}  # facts that the pipeline adds to every failure


def modules_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after ``code``."""
    run = subprocess.run(
        [sys.executable, "-c", f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        timeout=TIMEOUT,
    )
    return {name.split(".")[0] for name in json.loads(run.stdout.splitlines()[-1])}


CODES = {kind.__name__: kind.code for kind in errors.iterate_failures()}


def needed(template: str) -> set[str]:
    """The facts that a template cannot do without: its fields outside `[[...]]`."""
    bare = re.sub(r"\[\[.*?\]\]", "", template, flags=re.DOTALL)
    return {field for _, field, _, _ in string.Formatter().parse(bare) if field is not None}


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a module, the module itself first."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def every_call() -> list[tuple[str, Path, ast.Call]]:
    """Every place in the house that calls ``name(...)`` or ``something.name(...)``, with that name."""
    return [
        (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", ""), path, node)
        for path in PYTHON_FILES
        for node in nodes_of(path)
        if isinstance(node, ast.Call)
    ]


def calls(name: str) -> Iterator[tuple[Path, ast.Call]]:
    return ((path, call) for called, path, call in every_call() if called == name)


def test_each_package_imports_only_packages_below_it() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run(
        [lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT
    )
    assert run.returncode == 0, run.stdout + run.stderr


def module_name(path: Path) -> str:
    parts = path.relative_to(SRC.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def list_imports(path: Path, modules: set[str]) -> set[str]:
    """The modules of this package that a module imports, at any place: also inside functions and for types alone."""
    imports = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            imports |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{name.name}" for name in node.names}
            imports |= whole & modules or {node.module}
    return imports & modules


@cache
def import_graph() -> dict[str, set[str]]:
    """The modules that each module imports, without the package itself, which lists the public names."""
    files = {module_name(path): path for path in PYTHON_FILES if path != SRC / "__init__.py"}
    return {name: list_imports(path, set(files)) - {name} for name, path in files.items()}


def find_cycles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """The groups of modules that import each other, directly or through others."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        left = [start]
        while left:
            new = graph[left.pop()] - seen
            seen |= new
            left += new
        reached[start] = seen
    return {
        frozenset(other for other in graph if other in reached[one] and one in reached[other])
        for one in graph
        if one in reached[one]
    }


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    assert [sorted(one) for one in find_cycles(import_graph())] == []


def test_a_circle_of_imports_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}
    assert find_cycles(graph) == {frozenset("abc")}


def test_every_tool_is_a_py_file_beside_an_md_file() -> None:
    folder = SRC / "tools"
    words = {path.stem for path in folder.glob("*.md")}
    code = {path.stem for path in folder.glob("*.py")} - {"__init__", "tool", "arguments", "functions", "notes"}
    assert words == code == set(tools.list_ids())


@pytest.mark.parametrize("tool_id", tools.list_ids())
def test_every_tool_is_called_as_its_file(tool_id: str) -> None:
    assert tools.load(tool_id).id == tool_id


@pytest.mark.parametrize("tool_id", tools.list_ids())
def test_every_tool_file_has_the_same_parts_in_the_same_order(tool_id: str) -> None:
    tree = ast.parse((SRC / "tools" / f"{tool_id}.py").read_text(encoding="utf-8"))
    named = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            named.append(node.name)
        elif isinstance(node, ast.Assign):
            named += [target.id for target in node.targets if isinstance(target, ast.Name)]
    parts = ["Args", "Limits", "Facts", "run", "render", "TOOL"]
    assert [name for name in named if name in parts] == parts
    assert named[-1] == "TOOL"


PARTS_OF_A_TOOL = {"Args", "Limits", "Facts", "Data"}
"""The classes that every tool has under the same names."""


def test_no_two_classes_have_the_same_name() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef) and node.name not in PARTS_OF_A_TOOL:
                places.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_name_is_a_bare_participle_that_says_nothing() -> None:
    """`found`, `made`, `said` and `told` do not say what they hold."""
    empty = {"found", "made", "said", "told"}
    holds = re.compile(rf"\b_*(?:{'|'.join(empty)})_*\b")
    places = []
    ours = (path for top in ("src", "tests", "benchmarks") for path in sorted((ROOT / top).rglob("*.py")))
    for path in ours:
        if {"input", "expected"} & set(path.parts):
            continue  # samples that the tests edit
        if not holds.search(path.read_text(encoding="utf-8")):
            continue
        with tokenize.open(path) as file:
            tokens = tokenize.generate_tokens(file.readline)
            names = (token for token in tokens if token.type == tokenize.NAME and token.string.strip("_") in empty)
            places += [f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}" for token in names]
    assert places == []


def test_import_handrail_pulls_in_nothing_heavy() -> None:
    assert modules_after("import handrail") & (HEAVY | {"pydantic", "charset_normalizer"}) == set()


def test_reading_and_editing_plain_text_pulls_in_no_door_and_no_media_library(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    code = f"""
from handrail import Session
session = Session({str(tmp_path)!r})
assert session.call("Read", {{"file_path": "a.txt"}}).status == "ok"
result = session.call("Edit", {{"file_path": "a.txt", "old_string": "one", "new_string": "two"}})
assert result.status == "ok", result.text
"""
    assert modules_after(code) & (HEAVY | {"charset_normalizer"}) == set()


def test_importing_every_module_prints_nothing_and_creates_nothing(tmp_path: Path) -> None:
    every = [".".join(path.relative_to(SRC.parent).with_suffix("").parts) for path in PYTHON_FILES]
    names = [name.removesuffix(".__init__") for name in every if not name.endswith("__main__")]
    code = "import importlib\n" + "\n".join(f"importlib.import_module({name!r})" for name in names)
    run = subprocess.run(
        [sys.executable, "-B", "-c", code],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "HANDRAIL_STATE": str(tmp_path / "state")},
        capture_output=True,
        timeout=TIMEOUT,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")
    assert list(tmp_path.iterdir()) == []


def is_failure(value: object) -> TypeGuard[type[errors.ToolError]]:
    return isinstance(value, type) and issubclass(value, errors.ToolError)


def test_every_failure_has_a_code_of_its_own() -> None:
    leaves = [
        kind for kind in map(errors.__dict__.get, errors.__all__) if is_failure(kind) and not kind.__subclasses__()
    ]
    assert leaves
    codes = [kind.code for kind in leaves]
    assert len(codes) == len(set(codes))


def test_every_failure_is_drawn_in_the_tree_of_the_module() -> None:
    drawn = set(re.findall(r"\b[a-z]+(?:_[a-z]+)*\b", errors.__doc__ or ""))
    assert set(CODES.values()) <= drawn


def test_every_failure_has_a_native_message_and_every_message_a_failure() -> None:
    messages = dialects.load("native").templates.messages
    worded = {key.removeprefix("errors.") for key in messages if key.startswith("errors.")}
    assert worded == set(CODES.values())


@pytest.mark.parametrize("name", dialects.names())
def test_no_dialect_words_a_failure_that_does_not_exist(name: str) -> None:
    keys = [key for key in dialects.load(name).templates.messages if key.startswith("errors.")]
    assert {key.removeprefix("errors.") for key in keys} == set(CODES.values())


@pytest.mark.parametrize("name", dialects.names())
def test_every_template_of_a_dialect_is_well_formed(name: str) -> None:
    for key, template in dialects.load(name).templates.messages.items():
        assert isinstance(template, str), key
        assert template.count("[[") == template.count("]]"), key
        for _, field, spec, conversion in string.Formatter().parse(re.sub(r"\[\[(?:\w+\?)?|\]\]", "", template)):
            assert field is None or field.isidentifier(), (key, field)
            assert conversion is None, key
            if spec and not spec.startswith("n "):  # a counted word
                format(1.0, spec)


@pytest.mark.parametrize("name", dialects.names())
def test_every_error_template_can_be_filled_with_the_facts_that_its_failure_requires(name: str) -> None:
    """A fact outside of `[[...]]` has no default, so that mypy checks it wherever the failure is raised."""
    dialect = dialects.load(name)
    messages = dialect.templates.messages
    for kind in errors.iterate_failures():
        required = {fact for fact in kind.names() if not hasattr(kind, fact)}
        facts = {fact for fact in needed(messages[f"errors.{kind.code}"]) if not dialect.find_name(fact)}
        assert facts <= required | ALWAYS_KNOWN, kind.code


@pytest.mark.slow
def test_a_failure_is_raised_with_the_facts_that_it_declares(tmp_path: Path) -> None:
    snippets = {
        'NotFound(path="a")': "",
        "NotFound()": 'Missing named argument "path"',
        'NotFound(pth="a")': 'Unexpected keyword argument "pth"',
        "NotFound(path=3)": "incompatible type",
        'NotFound(path="a").nearest.lower()': "has no attribute",
        'JournalFailed(journal="j", why="w").why.lower()': "",
    }
    lines = ["from handrail.errors import JournalFailed, NotFound", *snippets]
    (tmp_path / "raises.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    run = subprocess.run(
        [*command, str(tmp_path / "raises.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TIMEOUT,
    )
    reported = dict(re.findall(r"raises\.py:(\d+): error: (.*)", run.stdout))
    for number, (snippet, wanted) in enumerate(snippets.items(), start=2):
        text = reported.get(str(number), "")
        assert wanted in text and bool(wanted) == bool(text), (snippet, run.stdout + run.stderr)


def test_the_facts_of_a_failure_are_its_attributes() -> None:
    error = errors.NotFound(path="a")
    assert (error.facts, error.nearest, error.wrap) == ({"path": "a"}, (), None)
    error.path = "b"
    error.facts["nearest"] = ["c"]
    assert (error.facts, error.nearest, str(error)) == (
        {"path": "b", "nearest": ["c"]},
        ["c"],
        "not_found: path='b', nearest=['c']",
    )
    assert errors.NotFound.names() == {"tool", "verb", "path", "nearest", "why"}


def test_no_module_parses_the_source_of_the_package() -> None:
    parsing = re.compile(r"^\s*(?:import|from) ast\b|getsource", re.MULTILINE)
    assert [p.name for p in PYTHON_FILES if parsing.search(p.read_text(encoding="utf-8"))] == []
    assert parsing.search("    import ast\n")


@pytest.mark.parametrize("name", dialects.names())
def test_every_note_template_can_be_filled_with_the_facts_of_its_note(name: str) -> None:
    messages = dialects.load(name).templates.messages
    for note in iterate_notes():
        assert needed(messages[f"notes.{note.code}"]) <= note.names(), note.code
    assert {key.removeprefix("notes.") for key in messages if key.startswith("notes.")} == {
        note.code for note in iterate_notes()
    }


@pytest.mark.parametrize("name", dialects.names())
def test_every_template_that_the_code_asks_for_by_name_is_there(name: str) -> None:
    messages = dialects.load(name).templates.messages
    collected = 0
    for path, call in calls("fill"):
        key = call.args[0] if call.args else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            assert key.value in messages, f"{path.name}:{call.lineno}"
            collected += 1
    assert collected > 10


def test_nothing_asks_which_dialect_is_in_force() -> None:
    asked = re.compile(
        r"dialect(?:\.name|_name)?\s*(?:==|!=|\bin\b|\bis\b)\s*[\"'(\[{]|[\"']\s*(?:==|!=)\s*\w*\.?dialect"
    )
    naming = [p.name for p in PYTHON_FILES if asked.search(p.read_text(encoding="utf-8"))]
    assert naming == []
    assert asked.search('if dialect == "claude":')


@pytest.mark.parametrize("package", ["text", "files", "search", "media", "tools", "shell"])
def test_no_dialect_is_named_below_the_dialects(package: str) -> None:
    names = "|".join(map(re.escape, dialects.names()))
    named = re.compile(rf"(?<![\w-])(?:{names})(?![\w-])")
    named_at = [
        f"{path.name}:{number}"
        for path in PYTHON_FILES
        if path.is_relative_to(SRC / package)
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1)
        if named.search(line)
    ]
    assert named_at == []
    assert named.search('"claw": 1')


def test_every_module_says_what_it_is_for() -> None:
    trees = ((path, nodes_of(path)[0]) for path in PYTHON_FILES)
    silent = [str(path) for path, tree in trees if isinstance(tree, ast.Module) and not ast.get_docstring(tree)]
    assert silent == []


def caught_types(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {"BaseException"}
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {ast.unparse(kind) for kind in kinds}


def passes_on(handler: ast.ExceptHandler) -> bool:
    """Whether a handler raises again, or hands the exception to somebody who does."""
    inside = [node for statement in handler.body for node in ast.walk(statement)]
    raises = any(isinstance(node, ast.Raise) for node in inside)
    return raises or any(isinstance(node, ast.Name) and node.id == handler.name for node in inside)


def test_nothing_is_caught_wholesale_outside_the_pipeline() -> None:
    """`except BaseException` may clean up, and must pass the exception on; `except Exception` is where calls end,
    and where code of the host is called: callbacks and functions."""
    broad = [
        (path, node)
        for path in PYTHON_FILES
        for node in nodes_of(path)
        if isinstance(node, ast.ExceptHandler) and caught_types(node) & {"Exception", "BaseException"}
    ]
    silent = [f"{path.name}:{node.lineno}" for path, node in broad if not passes_on(node)]
    assert silent == []
    places = {path.name for path, node in broad if "Exception" in caught_types(node)}
    assert places == {"session.py", "events.py", "functions.py"}


@pytest.mark.parametrize(
    ("code", "fine"),
    [
        ("try: f()\nexcept BaseException: pass", False),
        ("try: f()\nexcept: g()", False),
        ("try: f()\nexcept (OSError, BaseException): g()", False),
        ("try: f()\nexcept BaseException:\n  g()\n  raise", True),
        ("try: f()\nexcept BaseException as fault: future.set_exception(fault)", True),
    ],
)
def test_a_handler_that_swallows_everything_would_be_found(code: str, fine: bool) -> None:
    (handler,) = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ExceptHandler)]
    assert "BaseException" in caught_types(handler)
    assert passes_on(handler) is fine


@pytest.mark.parametrize("package", ["text", "files", "search", "shell"])
def test_what_lies_below_the_dialects_names_none_of_them(package: str) -> None:
    families = re.compile(r"(?<![a-z])(?:claude|codex|gemini|claw|deepagents)(?![a-z])", re.IGNORECASE)
    named = [
        f"{path.name}:{number}: {line.strip()}"
        for path in sorted((SRC / package).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if families.search(line)
    ]
    assert named == []
    assert families.search("def find_claw(text): ...")


def test_the_repository_names_no_machine_path_and_no_package_index() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    if listed.returncode:
        pytest.skip("not a git checkout, so there is no list of tracked files")
    forbidden = re.compile(
        r"(?<![\w.~])/(?:work|home|root|Users)/\w|--(?:extra-)?index-url[ =]+\S*//|https?://\S*/simple\b"
    )
    collected = []
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file():
            for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").split("\n"), start=1):
                if forbidden.search(line) or f"{ROOT}/" in line:
                    collected.append(f"{name}:{number}: {line.strip()[:100]}")
    assert collected == []
