"""Everyday commands in a repository run unasked in a sandbox; without one, each question says how to avoid it."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail import Session, Settings
from handrail.errors import NoSandbox
from handrail.model import Answer
from handrail.shell.sandbox import Mode as Sandbox
from tests.command import TIMEOUT
from tests.sizes import LONG, spread

COMMANDS = r"""
ls
ls -la src
pwd
cat README.md
head -n 3 src/app.py
tail -n 2 src/app.py
wc -l src/*.py
grep -rn def src
grep -c import tests/test_app.py
find . -name '*.py' -not -path './.git/*'
find src -type f | sort
tree src || ls -R src
du -sh src
file README.md || true
stat src/app.py
diff src/app.py src/app.py
sort names.txt | uniq -c
cut -d: -f1 names.txt
awk '{print $1}' names.txt
sed -n 1,2p src/app.py
tr a-z A-Z < names.txt
xargs -n1 echo < names.txt
echo done
printf '%s\n' a b
date +%Y
uname -a
which python3
env LC_ALL=C sort names.txt
test -f README.md && echo yes
true && echo fine || echo bad
for f in src/*.py; do echo "$f"; done
if [ -d src ]; then ls src; fi
while read -r line; do echo "$line"; done < names.txt
cd src && ls
(cd tests && ls)
git status
git status --short
git log --oneline
git log -1 --stat
git diff
git diff HEAD
git diff --stat
git show --stat HEAD
git branch
git branch --show-current
git rev-parse HEAD
git ls-files
git blame src/app.py
git remote -v
git config user.name || true
git stash list
git tag
git describe --always
git shortlog -sn HEAD
git grep def
git add -A
git commit --allow-empty -qm checkpoint
git checkout -q -b feature
git checkout -q main
git switch -q -c other && git switch -q main
git merge -q --no-edit feature
git tag v1
git stash && git stash pop || true
git reset -q
git cherry -v main
git -C . status
python3 --version
python3 -c 'print(1 + 1)'
python3 -m unittest discover -s tests -q
python3 -m compileall -q src
python3 src/app.py
python3 -m json.tool package.json
python3 - <<'END'
print('from a heredoc')
END
PYTHONPATH=src python3 -c 'import app; print(app.add(1, 2))'
python3 -m py_compile src/app.py
make
make test
make -n
mkdir -p build/out
touch build/out/x
cp README.md build/README.copy
echo hello > build/hello.txt
echo more >> build/hello.txt
cat > build/new.txt <<'END'
several
lines
END
tee build/tee.txt < names.txt
ln -s hello.txt build/link
chmod +x run.sh
./run.sh
bash run.sh
sh -n run.sh
sed -i s/hello/goodbye/ build/hello.txt
perl -pe s/a/b/ names.txt
tar czf build/src.tgz src
tar tzf build/src.tgz
mkdir -p build/unpacked && tar xzf build/src.tgz -C build/unpacked
gzip -k build/tee.txt
zcat build/tee.txt.gz
sha256sum README.md
base64 README.md
node --version
node -e 'console.log(1)'
npm --version
openssl dgst -sha256 README.md
sleep 0.1
timeout 5 python3 -c pass
time python3 -c pass
python3 -c 'import sys; sys.exit(0)' 2>&1 | tail -5
python3 -m venv --without-pip build/venv
build/venv/bin/python -c pass
python3 -m http.server --help | head -3
"""


SANDBOXES: tuple[Sandbox, ...] = ("namespaces", "landlock") if LONG else ("namespaces",)


def _commands() -> list[str]:
    text = re.sub(r"(<<'END'\n.*?\nEND)", lambda match: match[1].replace("\n", "\0"), COMMANDS, flags=re.DOTALL)
    return [line.replace("\0", "\n") for line in text.strip().split("\n")]


@pytest.fixture
def repository() -> Iterator[Path]:
    # Not in /tmp: a sandbox gives commands a directory of their own there.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="handrail-test-") as result:
        root = Path(result) / "project"
        files = {
            "README.md": "# Project\n",
            "names.txt": "ann:1\nbob:2\nann:1\n",
            "package.json": '{"name": "project"}\n',
            "Makefile": "all:\n\t@echo built\ntest:\n\tpython3 -m unittest discover -s tests -q\n",
            "run.sh": "#!/bin/bash\necho running\n",
            "src/app.py": "def add(a, b):\n    return a + b\n\n\nprint(add(1, 2))\n",
            "tests/test_app.py": "import unittest\n\nclass T(unittest.TestCase):\n    def test(self):\n        pass\n",
        }
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        for words in (
            "git init -q -b main",
            "git config user.name somebody",
            "git config user.email somebody@example.org",
            "git add -A",
            "git commit -qm first",
        ):
            subprocess.run(shlex.split(words), cwd=root, check=True, capture_output=True, timeout=TIMEOUT)
        yield root


def _can_run(command: str) -> bool:
    """Whether the programs that not every machine has are on this one."""
    words = re.findall(r"[\w./-]+", command)
    return all(shutil.which(name) for name in ("make", "node", "npm", "perl", "openssl") if words[0] == name)


def test_there_are_at_least_100_of_them() -> None:
    assert len(set(_commands())) >= 100


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_everyday_commands_run_unasked_in_a_sandbox(repository: Path, tmp_path: Path, sandbox: Sandbox) -> None:
    settings = Settings(state=str(tmp_path / "state"), sandbox=sandbox, sandbox_required=True, raise_bugs=True)
    wrong = []
    with Session(repository, mode="accept-edits", settings=settings) as session:
        try:
            assert session.services.command_host().sandbox.confined
        except NoSandbox as error:
            pytest.skip(f"{sandbox} cannot be used on this machine: {error}")
        for command in _commands():  # all of them: later ones use what earlier ones have made
            if not _can_run(command):
                continue
            result = session.call("Bash", {"command": command, "timeout": 60})
            if result.status == "denied" or result.data.get("exit_code"):
                wrong.append((command, result.text[:200]))
    assert wrong == []


@pytest.mark.slow
@pytest.mark.long
def test_everyday_commands_need_nothing_that_is_hidden_from_them_in_mode_ask(repository: Path, tmp_path: Path) -> None:
    settings = Settings(state=str(tmp_path / "state"), sandbox="namespaces", raise_bugs=True)
    wrong = []
    with Session(repository, mode="ask", settings=settings, approve=lambda _: Answer(True)) as session:
        if not session.services.command_host().drafts.workspace:
            pytest.skip(f"there is no draft here: {session.services.command_host().drafts.why_none}")
        for command in filter(_can_run, _commands()):
            asked = session.prepare("Bash", {"command": command}).verdict
            result = session.call("Bash", {"command": command, "timeout": 60})
            if asked.decision != "allow" or result.data.get("exit_code"):
                wrong.append((command, asked.why, result.text[:200]))
    assert wrong == []


def test_without_a_sandbox_each_question_offers_a_rule_and_says_how_to_get_a_sandbox(
    repository: Path, tmp_path: Path
) -> None:
    settings = Settings(state=str(tmp_path / "state"), sandbox="off", raise_bugs=True)
    with Session(repository, mode="accept-edits", settings=settings) as session:
        for command in spread(_commands(), 35):
            prepared = session.prepare("Bash", {"command": command})
            verdict = prepared.verdict
            if verdict.decision == "allow":
                reads = [one for one in prepared.accesses if one.action == "run" and one.tier != "read_only"]
                assert reads == [], command
                continue
            assert verdict.decision == "ask", command
            assert "`handrail doctor` says how to get one" in verdict.advice, (command, verdict)
            is_plain = re.fullmatch(r"[\w ./+-]+", command) is not None
            assert verdict.allow or not is_plain or verdict.rule.endswith("doubt"), command
