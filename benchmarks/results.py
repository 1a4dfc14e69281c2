"""How many characters the answers of real calls have, and whether a planted fact is at most one further call away.

    python -m benchmarks.results            200 answers of this version, by kind
    python -m benchmarks.results --chains   20 chains of looks, call by call and as one script each
    PYTHONPATH=OTHER/src python -m benchmarks.results --json    the same calls with another version, to compare

The trees are real: this project, Python's standard library, and npm where it is installed. The commands are pytest,
node and cargo on suites of generated tests (some of them fail), git log, ls -R, find, and a build with progress lines.
Facts are marked lines: at random places of copied sources, in a failing test, among the lines of a listing.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handrail import Session, Settings

HERE = Path(__file__).parent.parent
SOURCES = (HERE / "src", Path(sysconfig.get_path("stdlib")), Path("/usr/share/nodejs"), Path("/usr/lib/node_modules"))
READS, SEARCHES = 110, 40
_LOG = re.compile(r"/large_tool_results/[\w.-]+")


@dataclass
class Case:
    """One call, with a fact that its whole result holds."""

    kind: str
    tool: str
    arguments: dict[str, Any]
    fact: str
    path: str = ""
    """The file in which the fact stands, for a Read or a Grep."""
    line: int = 0


def _list_sources(choose: random.Random) -> list[Path]:
    """Sources of 4,000 to 400,000 bytes, the larger half of them from 25,000 bytes on."""
    every = [
        path
        for top in SOURCES
        for ending in ("py", "js", "md")
        for path in sorted(top.rglob(f"*.{ending}"))
        if path.is_file() and 4_000 <= path.stat().st_size <= 400_000 and "test" not in path.name
    ]
    large = [path for path in every if path.stat().st_size >= 25_000]
    small = [path for path in every if path.stat().st_size < 25_000]
    return choose.sample(large, READS // 2) + choose.sample(small, READS - READS // 2)


def _make_reads(root: Path, choose: random.Random) -> Iterator[Case]:
    (root / "sources").mkdir()
    for number, source in enumerate(_list_sources(choose)):
        lines = source.read_text(encoding="utf-8", errors="replace").splitlines()
        at, fact = choose.randrange(len(lines)), f"planted_read_{number}_fact"
        lines.insert(at, fact)
        copy = root / "sources" / f"s{number:03}{source.suffix}"
        copy.write_text("\n".join(lines) + "\n", encoding="utf-8")
        yield Case("Read", "Read", {"file_path": str(copy)}, fact, str(copy), at + 1)


def _make_searches(root: Path, choose: random.Random) -> Iterator[Case]:
    words = ("import", "def ", "return", "self", "raise", "class ", "None", "path", "error", "name")
    for number in range(SEARCHES):
        name = choose.choice(sorted((root / "sources").iterdir()))
        fact = f"planted_search_{number}_fact"
        word = words[number % len(words)]
        with name.open("a", encoding="utf-8") as file:
            file.write(f"# {word} {fact}\n")
        line = name.read_text(encoding="utf-8").count("\n")
        arguments = {"pattern": word, "output_mode": "content", "path": "sources"}
        if number % 4 == 1:
            arguments["context"] = 2
        yield Case("Grep", "Grep", arguments, fact, str(name), line)


def _write_pytest(folder: Path, modules: int, fact: str) -> None:
    folder.mkdir()
    for number in range(modules):
        tests = [f"def test_case_{one}():\n    assert {one} + 1 == {one + 1}\n" for one in range(40)]
        if fact and number == modules // 2:
            tests.append(f"def test_broken():\n    found = 'wrong'\n    assert found == '{fact}'\n")
        (folder / f"test_m{number}.py").write_text("\n\n".join(tests), encoding="utf-8")


def _write_node(folder: Path, modules: int, fact: str) -> None:
    folder.mkdir()
    (folder / "package.json").write_text('{"name": "x", "scripts": {"test": "node --test"}}', encoding="utf-8")
    head = "const test = require('node:test');\nconst assert = require('node:assert');\n"
    for number in range(modules):
        tests = [f"test('case {number} {one}', () => assert.equal({one}, {one}));" for one in range(40)]
        if fact and number == modules // 2:
            tests.append(f"test('broken', () => assert.equal('wrong', '{fact}'));")
        (folder / f"m{number}.test.js").write_text(head + "\n".join(tests), encoding="utf-8")


def _write_cargo(folder: Path, modules: int, fact: str) -> None:
    (folder / "src").mkdir(parents=True)
    (folder / "Cargo.toml").write_text('[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n', encoding="utf-8")
    tests = [f"#[test] fn case_{one}() {{ assert_eq!({one}, {one}); }}" for one in range(modules * 40)]
    if fact:
        tests.append(f'#[test] fn broken() {{ assert_eq!("wrong", "{fact}"); }}')
    (folder / "src" / "lib.rs").write_text("\n".join(tests), encoding="utf-8")


_BUILD = """
import sys
for n in range(1, {n} + 1):
    print(f"[{{n}}/{n}] Building object src/module_{{n}}.o  {{100 * n // {n}}}%")
    if n == {at}:
        print("warning: {fact}")
for n in range(60):
    print("note: nothing to do for this target")
"""


def _make_commands(root: Path, choose: random.Random) -> Iterator[Case]:
    number = 0

    def fact() -> str:
        nonlocal number
        number += 1
        return f"planted_command_{number}_fact"

    python = sys.executable
    suites = [("pytest", _write_pytest, [f"{python} -m pytest -p no:cacheprovider {way}" for way in ("", "-q", "-v")])]
    if shutil.which("node"):
        suites.append(("node", _write_node, ["npm test", "node --test"] if shutil.which("npm") else ["node --test"]))
    if shutil.which("cargo"):
        suites.append(("cargo", _write_cargo, ["cargo test --offline"]))
    for name, write, commands in suites:
        for modules in (2, 6, 12):
            for way, command in enumerate(commands):
                for fails in (False, True):
                    planted = fact() if fails else ""
                    folder = root / f"{name}-{modules}-{way}-{fails}"
                    write(folder, modules, planted)
                    yield Case(name, "Bash", {"command": command, "workdir": folder.name, "timeout": 300}, planted)
    for size in (20, 60, 200, 400):
        yield Case("git log", "Bash", {"command": f"git -C {HERE} log -n {size}"}, "")
    for size in (5, 15, 40):
        yield Case("git log", "Bash", {"command": f"git -C {HERE} log --stat -n {size}"}, "")
    for top in ("src", "tests", "docs"):
        yield Case("ls -R", "Bash", {"command": f"ls -R {HERE / top}"}, "")
        yield Case("find", "Bash", {"command": f"find {HERE / top} -type f -name '*.*'"}, "")
    while number < 50:
        planted, lines = fact(), choose.choice((50, 150, 400, 900))
        script = root / f"build{number}.py"
        script.write_text(_BUILD.format(n=lines, at=choose.randrange(1, lines), fact=planted), encoding="utf-8")
        yield Case("build", "Bash", {"command": f"{python} {script.name}"}, planted)


def _choose_fact(case: Case, choose: random.Random) -> None:
    """A line of the output that no other line holds, for a command without a marked one."""
    done = subprocess.run(case.arguments["command"], shell=True, capture_output=True, text=True, check=False)
    lines = [line.strip() for line in done.stdout.splitlines() if len(line.strip()) > 12]
    single = [line for line in lines if done.stdout.count(line) == 1]
    case.fact = choose.choice(single) if single else ""


def _is_reached(session: Session, case: Case, text: str) -> bool:
    """Whether the fact is in the answer, or in that of one further call with what the answer names."""
    if case.fact in text:
        return True
    if case.path:
        step = {"file_path": case.path, "offset": max(1, case.line - 3), "limit": 8}
        return case.fact in session.call("Read", step).text
    log = _LOG.search(text)
    step = {"pattern": case.fact, "literal": True, "output_mode": "content", "path": log[0] if log else "."}
    return bool(log) and case.fact in session.call("Grep", step).text


def measure(seed: int = 7) -> dict[str, Any]:
    """Characters by kind, and the facts that were out of reach."""
    choose = random.Random(seed)
    sums: dict[str, list[int]] = {}
    lost: list[str] = []
    facts = calls = 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "work")
        root.mkdir()
        cases = [*_make_reads(root, choose), *_make_searches(root, choose), *_make_commands(root, choose)]
        settings = Settings(state=str(Path(name, "state")))
        with Session(root, mode="full", journal=None, settings=settings) as session:
            for case in cases:
                if not case.fact and case.tool == "Bash" and case.kind not in ("pytest", "node", "cargo"):
                    _choose_fact(case, choose)
                text = session.call(case.tool, case.arguments).full_text
                one = sums.setdefault(case.kind, [0, 0])
                one[0], one[1], calls = one[0] + 1, one[1] + len(text), calls + 1
                if case.fact:
                    facts += 1
                    if not _is_reached(session, case, text):
                        lost.append(f"{case.kind}: {case.arguments}")
    return {"calls": calls, "facts": facts, "kinds": sums, "chars": sum(one[1] for one in sums.values()), "lost": lost}


_NAMES = """\
home = {home!r}
names = [m["text"].split("(")[0].split()[1] for m in grep({first!r}, home, output_mode="content").data["matches"]][:8]
for name in names:
    found = grep({then!r} % name, "src", output_mode="content").data["matches"]
"""
_QUESTIONS = {
    "callers": (
        r"^def [a-z]",
        r"\b%s\(",
        """    print(name, *(f"{m['file']}:{m['line']}" for m in found if m["file"] != home))\n""",
        ("search/query.py", "drafts/split.py", "text/lines.py", "policy/paths.py"),
    ),
    "raised": (
        r"^class \w+\(",
        r"raise %s\b",
        """    print(name, len(found), *(f"{m['file']}:{m['line']}" for m in found[:1]))\n""",
        ("errors/files.py", "errors/changes.py", "errors/commands.py"),
    ),
    "unused": (
        r"^    def [a-z]",
        r"\b%s\b",
        "    if len(found) < 2:\n        print(name)\nprint(len(names), 'checked')\n",
        ("drafts/store.py", "journal/queries.py", "text/document.py"),
    ),
}
"""Ten questions about names of a module: what lists them, what finds each, what a script prints, and the modules."""
_READ = """\
for path in glob({pattern!r}).data["paths"][:{most}]:
    print(path, *(line for line in read(path).splitlines() if {word!r} in line), sep="\\n")
"""


def _ask(session: Session, question: str, module: str) -> tuple[str, int, list[str]]:
    """A script that answers a question, the characters of its looks made one by one, and what must be in the answer."""
    first, then, end, _ = _QUESTIONS[question]
    home, facts = f"src/handrail/{module}", list[str]()
    listed = session.call("Grep", {"pattern": first, "path": home, "output_mode": "content"})
    single, names = len(listed.full_text), [m["text"].split("(")[0].split()[1] for m in listed.data["matches"]][:8]
    for name in names:
        look = session.call("Grep", {"pattern": then % name, "path": "src", "output_mode": "content"})
        single += len(look.full_text)
        places = [
            f"{m['file']}:{m['line']}" for m in look.data["matches"] if question != "callers" or m["file"] != home
        ]
        if question == "unused":
            facts += [name] if len(places) < 2 else []
        else:
            facts += [name, *places] if question == "callers" else [f"{name} {len(places)}", *places[:1]]
    return _NAMES.format(home=home, first=first, then=then) + end, single, facts


def _look(session: Session, word: str, pattern: str, most: int) -> tuple[str, int, list[str]]:
    """The same for the lines with a word in some files, which are read one by one."""
    listed = session.call("Glob", {"pattern": pattern})
    single, facts = len(listed.full_text), list[str]()
    for path in listed.data["paths"][:most]:
        look = session.call("Read", {"file_path": path})
        single += len(look.full_text)
        facts += (line.partition("\t")[2] for line in look.text.splitlines() if word in line and line[0].isdigit())
    return _READ.format(pattern=pattern, most=most, word=word), single, facts


def measure_chains() -> dict[str, list[int]]:
    """By kind: chains, looks, the characters of single answers, those of scripts and their answers, and lost facts."""
    words = ("import ", "raise ", "class ", "yield", "lambda", "assert ", "return None", "while ", "TODO", "def _")
    patterns = ("src/handrail/policy/*.py", "src/handrail/search/*.py")
    figures: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(HERE / "src", Path(name, "work", "src"), ignore=shutil.ignore_patterns("__pycache__"))
        settings = Settings(state=str(Path(name, "state")))
        with Session(Path(name, "work"), mode="full", journal=None, settings=settings) as session:
            chains = [
                (f"Grep, {one}", _ask(session, one, module)) for one, row in _QUESTIONS.items() for module in row[3]
            ]
            for number, word in enumerate(words):
                chains.append(("Read", _look(session, word, patterns[number % 2], 5 + number % 4)))
            for tool, (code, single, facts) in chains:
                answer = session.call("Script", {"code": code})
                lost = sum(fact not in answer.text for fact in facts)
                one = (1, len(answer.data["calls"]), single, len(code) + len(answer.full_text), lost)
                figures[tool] = [sum(pair) for pair in zip(figures.get(tool, [0] * 5), one, strict=True)]
    return figures


def main() -> None:
    if "--chains" in sys.argv:
        for tool, (chains, looks, single, scripts, lost) in measure_chains().items():
            saved = 1 - scripts / single
            print(f"{tool}: {chains} chains of {looks} looks, {single:,} characters", end="")
            print(f", {scripts:,} as scripts (-{saved:.0%}); facts lost: {lost}")
        return
    figures = measure()
    if "--json" in sys.argv:
        print(json.dumps(figures, indent=2))
        return
    for kind, (count, chars) in figures["kinds"].items():
        print(f"{kind:10}{count:>6}{chars:>12,}")
    print(f"{'all':10}{figures['calls']:>6}{figures['chars']:>12,}; facts {figures['facts']}, lost {figures['lost']}")


if __name__ == "__main__":
    main()
