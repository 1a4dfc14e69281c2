"""Real tools leave in a kept draft the tree that they leave in a plain copy, and undo takes it back to the inode."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from handrail.pipeline.session import Session
from handrail.settings import Settings
from tests.drafts.machine import require_drafts
from tests.drafts.trees import describe
from tests.sizes import spread

GIT = "git -c user.name=a -c user.email=a@b -c commit.gpgsign=false -c init.defaultBranch=main"
COMMIT = f"{GIT} add -A && {GIT} commit -qm"
PIP = f"{sys.executable} -m pip install -q --no-index --no-deps --no-compile --target lib"
CACHE = "export CACHE=$(mktemp -d); trap 'rm -r $CACHE' EXIT"
NPM = "npm install --offline --no-audit --no-fund --silent --cache $CACHE"
_VOLATILE = re.compile(
    r"(?:^|/)(?:\.git(?:/.*)?|__pycache__/.*|\.pytest_cache/.*|.*\.db-shm|RECORD|direct_url\.json|target(?:/.*)?)$"
)
_VARIABLES = {"GIT_AUTHOR_DATE": "@1700000000 +0000", "GIT_COMMITTER_DATE": "@1700000000 +0000"}

GIT_SCENES = {
    "commit": f"echo new > n; {COMMIT} two",
    "checkout": "git checkout -q other && git checkout -q -b third",
    "stash": f"echo x >> a; {GIT} stash -q; {GIT} stash pop -q",
    "rebase": f"echo x > only; {COMMIT} three; {GIT} rebase -q other",
    "merge": f"echo x > only; {COMMIT} three; {GIT} merge -q --no-edit other",
    "conflict": f"echo mine > a; {COMMIT} mine; {GIT} merge -q --no-edit other || true",
    "gc": "git gc -q --prune=now",
    "worktree": "git worktree add -q wt other && git worktree list > /dev/null",
    "move a directory": f"{GIT} mv d moved && {COMMIT} moved",
    "reset": "echo x > a; rm -r d; git reset -q --hard",
    "clean": "touch junk; mkdir -p j/k; git clean -qfdx",
    "cherry-pick": f"{GIT} cherry-pick other~0 > /dev/null 2>&1 || {GIT} cherry-pick --abort",
    "tag and branch": f"{GIT} tag -am t t1; git branch -q x; git branch -q -d x; git pack-refs --all",
    "bisect": "git bisect start -q HEAD HEAD > /dev/null 2>&1; git bisect reset -q > /dev/null 2>&1 || true",
    "apply": "git diff main other > p.diff; git apply p.diff; rm p.diff",
}
TOOL_SCENES = {
    "make": "printf 'out: in\\n\\tcat in > out\\n' > Makefile; echo 1 > in; make -s; "
    "touch -d @1600000000 in out; echo 2 > in; make -s",
    "sqlite": f"""{sys.executable} -c "
import sqlite3
db = sqlite3.connect('x.db'); db.execute('create table t (n)')
db.executemany('insert into t values (?)', [(n,) for n in range(500)]); db.commit()
db.execute('delete from t where n % 2'); db.commit(); db.execute('vacuum'); db.close()" """,
    "pytest": "mkdir t; printf 'def test_one():\\n    assert 1\\n' > t/test_one.py; "
    f"{sys.executable} -m pytest -q -p no:xdist -p no:randomly -p no:cacheprovider t > /dev/null",
    "pip install": f"{PIP} pkg-1-py3-none-any.whl",
    "pip upgrade": f"{PIP} pkg-1-py3-none-any.whl; {PIP} --upgrade pkg-2-py3-none-any.whl",
    "npm install": f"{CACHE}; {NPM} ./pkg-1.0.0.tgz && node -e \"require('pkg')\"",
    "npm upgrade": f"{CACHE}; {NPM} ./pkg-1.0.0.tgz && {NPM} ./pkg-2.0.0.tgz && node -e \"require('pkg')\"",
    "cargo": f"{CACHE}; cd rust && CARGO_HOME=$CACHE cargo build -q --offline && ./target/debug/rust",
    "tar": "tar cf all.tar d a && rm -r d && tar xf all.tar && rm all.tar",
    "rename and replace": "mv d e; mkdir d; echo 1 > d/new; mv e/f d/f; rmdir e; ln -s d/f link; ln d/f hard",
    "editor": "cp a a~; sed -i s/one/two/ a; mv a a.new; mv a.new a",
    "many files": "mkdir many; for n in $(seq 300); do echo $n > many/$n; done; rm many/1*",
}


NEEDED = {"npm install": ("npm", "node"), "npm upgrade": ("npm", "node"), "cargo": ("cargo", "cc"), "make": ("make",)}
AGAIN = {
    "make": ("make", "up to date"),
    "cargo": ("cd rust && cargo build --offline -v", "Fresh rust"),
    "pytest": (f"{sys.executable} -m pytest -q -p no:xdist -p no:randomly -p no:cacheprovider t", "1 passed"),
}
"""A second run after the keep, outside of the draft, and a word of its output. It builds nothing again."""
BUILT = re.compile(r"^(?:out|t/__pycache__/.*|rust/target/debug/(?:deps/.*|rust|build/.*|\.fingerprint/.*))$")


def _add_packages(folder: Path) -> None:
    """Two versions of a package for npm, and a Rust program with a path dependency."""
    for version in (1, 2):
        files = {
            "package.json": json.dumps({"name": "pkg", "version": f"{version}.0.0", "main": "index.js"}),
            "index.js": f"module.exports = {version};\n",
            f"only-in-{version}.js": "",
        }
        with tarfile.open(folder / f"pkg-{version}.0.0.tgz", "w:gz") as archive:
            for name, text in files.items():
                member = tarfile.TarInfo(f"package/{name}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode("ascii")))
    (folder / "package.json").write_text('{"name": "top", "version": "1.0.0", "private": true}', encoding="ascii")
    head = '[package]\nname = "{}"\nversion = "1.0.0"\nedition = "2021"\n'
    for path, text in {
        "rust/Cargo.toml": head.format("rust") + '[dependencies]\nlib = { path = "lib" }\n',
        "rust/src/main.rs": "fn main() { assert_eq!(lib::two(), 2); }\n",
        "rust/lib/Cargo.toml": head.format("lib"),
        "rust/lib/src/lib.rs": "pub fn two() -> u8 { 2 }\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="ascii")


def _make_project(folder: Path, command: str) -> None:
    (folder / "d").mkdir(parents=True)
    (folder / "scene.sh").write_text(command, encoding="ascii")  # nobody can tell what it does from `bash scene.sh`
    (folder / "a").write_text("one\n", encoding="ascii")
    (folder / "d" / "f").write_text("two\n", encoding="ascii")
    for version in (1, 2):
        with zipfile.ZipFile(folder / f"pkg-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr("pkg.py", f"version = {version}\n")
            info = f"pkg-{version}.dist-info"
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: pkg\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
    _add_packages(folder)
    _run(
        f"{GIT} init -q && {COMMIT} one && git checkout -q -b other && echo other > a && {COMMIT} other && "
        "git checkout -q main",
        folder,
    )


def _run(command: str, folder: Path) -> None:
    # As the draft's commands run: with few variables, and no configuration of whoever runs the tests.
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment = {**kept, **_VARIABLES, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["bash", "-c", command], cwd=folder, env=environment, check=True, capture_output=True, timeout=600)


def _describe(folder: Path) -> dict[str, tuple[object, ...]]:
    tree = describe(str(folder), times=False)
    return {path: entry for path, entry in tree.items() if not _VOLATILE.search(path)}


def _ask_git(folder: Path) -> list[str]:
    questions = (
        "git fsck --strict 2>&1",
        "git status --porcelain=v2 --branch",
        "git for-each-ref",
        "git stash list",
        "git worktree list --porcelain | grep -v '^worktree'",
    )
    return [
        subprocess.run(["bash", "-c", one], cwd=folder, capture_output=True, text=True, timeout=600).stdout
        for one in questions
    ]


def _build_again(folder: Path, command: str, word: str) -> None:
    """Run a build tool once more; fails if it builds anything again after the keep."""

    def look() -> dict[str, tuple[int, int]]:
        paths = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
        statuses = {path: (folder / path).stat() for path in paths if BUILT.match(path)}
        return {path: (status.st_ino, status.st_mtime_ns) for path, status in statuses.items()}

    built = look()
    assert built, "nothing was built"
    again = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=600)
    assert again.returncode == 0 and word in again.stdout + again.stderr, again
    assert look() == built, "what was built is built again after the keep"


@pytest.mark.parametrize("scene", spread(sorted({**GIT_SCENES, **TOOL_SCENES}), 8))
def test_a_tool_leaves_the_same_tree_as_in_a_plain_copy(scene: str, tmp_path: Path) -> None:
    require_drafts()
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    for program in NEEDED.get(scene, ()):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    command = {**GIT_SCENES, **TOOL_SCENES}[scene]
    plain, drafted = tmp_path / "plain" / "p", tmp_path / "drafted" / "p"
    _make_project(plain, command)
    shutil.copytree(plain, drafted, symlinks=True, copy_function=shutil.copy2)
    _run("git update-index -q --refresh || true", drafted)
    before = {times: describe(str(drafted), times=times) for times in (True, False)}
    has_times = True
    _run("bash scene.sh", plain)
    settings = Settings(durable=False, keep_env=tuple(_VARIABLES))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _VARIABLES.items():
            patch.setenv(name, value)
        with Session(drafted, mode="full", settings=settings) as session:
            result = session.call("Bash", {"command": "bash scene.sh"})
            assert (result.data["exit_code"], result.data.get("kept")) == (0, True), result.text
            assert _describe(drafted) == _describe(plain)
            if scene in GIT_SCENES:
                assert _ask_git(drafted) == _ask_git(plain)
            if scene in AGAIN:
                built = describe(str(drafted), times=True)
                _build_again(drafted, *AGAIN[scene])
                # A second `cargo build` may write its list of sources once more: then undo restores contents alone.
                has_times = scene != "cargo" or describe(str(drafted), times=True) == built
            if not result.data["changes"]:  # only times: an archive that is packed and unpacked
                return
            report = session.undo()
            assert not (report.conflicts or report.missing), report
    was, now = before[has_times], describe(str(drafted), times=has_times)
    changed = {path for path in was.keys() | now.keys() if was.get(path) != now.get(path)}
    assert changed <= {".git/index", ".git"}, "the questions to git may refresh its index"
