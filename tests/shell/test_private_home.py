"""What commands see of the home directory: toolchains and git's settings, in a private directory of their own."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail import Answer, Question, Session, Settings
from handrail.policy.modes import Mode
from tests.drafts.machine import require_drafts

pytestmark = pytest.mark.slow  # starts many processes
CANARY = "canary-of-the-home"
REAL_HOME = os.path.expanduser("~")
TOOLCHAINS = {
    # By the directory on PATH: the files of a toolchain, of which the first is the program and the last is its data.
    ".pyenv/shims": (".pyenv/shims/{0}", ".pyenv/versions/3.9/lib/data"),
    ".nvm/versions/node/v20/bin": (".nvm/versions/node/v20/bin/{0}", ".nvm/versions/node/v20/lib/data"),
    ".cargo/bin": (".cargo/bin/{0}", ".rustup/toolchains/stable/lib/data"),
    ".bun/bin": (".bun/bin/{0}", ".bun/install/cache/data"),
    ".sdkman/candidates/java/current/bin": (
        ".sdkman/candidates/java/current/bin/{0}",
        ".sdkman/candidates/java/21/data",
    ),
    ".local/bin": (".local/bin/{0}", ".local/share/uv/tools/data"),
    "opt/node/bin": ("opt/node/bin/{0}", "opt/node/lib/data"),
}


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    require_drafts()
    # Not in /tmp: a sandbox gives commands a directory of their own there.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="handrail-test-") as folder:
        home = Path(os.path.realpath(folder)) / "home"
        (home / "project").mkdir(parents=True)
        (home / "data").mkdir()
        (home / "data/note.txt").write_text(f"{CANARY}\n", encoding="utf-8")
        (home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n", encoding="utf-8")
        for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(home))
        yield home


def _open(home: Path, mode: Mode = "accept-edits", project: str = "project", **rest: object) -> Session:
    settings = Settings(state=str(home.parent / "state"))
    return Session(home / project, mode=mode, settings=settings, **rest)  # type: ignore[arg-type]


def _run(session: Session, command: str, **arguments: object) -> str:
    return session.call("Bash", {"command": command, **arguments}).text


@pytest.mark.parametrize("mode", ["accept-edits", "ask"])
def test_the_home_is_writable_and_private(home: Path, mode: Mode) -> None:
    before = sorted(os.listdir(home))
    with _open(home, mode, approve=lambda _: True) as session:
        text = _run(session, "mkdir -p ~/.npm ~/.cache && echo left > ~/.npm/left && echo x > ~/.bashrc && ls -A ~")
    assert ".npm" in text and "data" not in text.split()
    assert sorted(os.listdir(home)) == before
    with _open(home, mode, approve=lambda _: True) as later:  # what a tool has fetched stays for this workspace
        assert _run(later, "cat ~/.npm/left; touch x").startswith("left")
    (home / "other").mkdir()
    with _open(home, mode, project="other", approve=lambda _: True) as other:
        assert "No such file" in _run(other, "cat ~/.npm/left; touch x")


def test_nothing_else_of_the_home_is_seen_by_any_command(home: Path) -> None:
    (home / "project/look.py").write_text(
        "import os\nhome = os.path.expanduser('~')\n"
        "print([p for here, _, names in os.walk(home) for p in names if p == 'note.txt'], os.listdir(home))\n"
        "open(os.path.join(home, 'job'), 'w').close()\n",
        encoding="utf-8",
    )
    with _open(home) as session:
        assert "note.txt" not in _run(session, "python3 look.py")
        started = session.call("Bash", {"command": "python3 look.py", "background": True})
        text = ""
        while "exit" not in text:
            text += session.call("BashOutput", {"job": started.data["job"]}).text
        assert "note.txt" not in text and "[]" in text
    assert not (home / "job").exists()


def test_what_an_earlier_command_left_steers_no_command_that_only_reads(home: Path) -> None:
    (home / ".gitconfig").unlink()
    with _open(home) as session:
        script = "printf '[core]\\nfsmonitor = touch ran; false\\n' > ~/.gitconfig; git init -q; git add -A"
        _run(session, script)
        (home / "project/ran").unlink(missing_ok=True)
        _run(session, "cat ~/.gitconfig; git status")
    assert not (home / "project/ran").exists()


def test_git_commits_as_the_user(home: Path) -> None:
    with _open(home) as session:
        text = _run(
            session, "git init -q && echo 1 > a && git add a && git commit -qm one && git log --format='%an %ae'"
        )
    assert text.startswith("Ada ada@example.org")


@pytest.fixture(params=["openpgp", "ssh"])
def agent(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The socket of a running agent with the user's key, by which the user's settings sign every commit."""
    programs = {"openpgp": ("gpg", "gpgconf", "gpg-agent"), "ssh": ("ssh-keygen", "ssh-agent", "ssh-add")}
    if missing := [name for name in programs[request.param] if shutil.which(name) is None]:
        pytest.skip(f"{missing[0]} is not installed")
    monkeypatch.delenv("GNUPGHOME", raising=False)
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    for name in (".ssh", ".gnupg"):
        (home / name).mkdir(mode=0o700)
    if request.param == "openpgp":
        key, stop = "Ada", ["gpgconf", "--kill", "gpg-agent"]
        words = ["--batch", "--passphrase", "", "--quick-gen-key", "Ada <ada@example.org>", "default", "default"]
        subprocess.run(["gpg", *words], check=True, capture_output=True)
        done = subprocess.run(
            ["gpgconf", "--list-dirs", "agent-extra-socket"], check=True, capture_output=True, text=True
        )
        socket = done.stdout.strip()
    else:
        key, socket = str(home / ".ssh/id_ed25519"), str(home / "agent")
        subprocess.run(["ssh-keygen", "-qN", "", "-t", "ed25519", "-f", key], check=True)
        done = subprocess.run(["ssh-agent", "-a", socket], check=True, capture_output=True, text=True)
        stop = ["kill", done.stdout.partition("SSH_AGENT_PID=")[2].partition(";")[0]]
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        subprocess.run(["ssh-add", "-q", key], check=True)
        os.unlink(key)  # only the agent has it
    settings = f"[commit]\ngpgsign = true\n[gpg]\nformat = {request.param}\n[user]\nsigningkey = {key}\n"
    with open(home / ".gitconfig", "a", encoding="utf-8") as file:
        file.write(settings)
    yield socket
    subprocess.run(stop, check=True)


def _commit(session: Session, name: str) -> str:
    return _run(session, f"git add -A && git commit --allow-empty -qm {name}; git log -1 --format=%s")


def test_a_commit_is_signed_by_the_agent_after_a_yes(home: Path, agent: str) -> None:
    asked: list[str] = []

    def approve(question: Question) -> Answer:
        asked.append(question.verdict.why)
        return Answer(True, lasting="session")

    subprocess.run(["git", "init", "-q"], cwd=home / "project", check=True)
    with _open(home, approve=approve) as session:
        _commit(session, "one")
        assert asked == [f"`git commit` asks to sign with your key, through {agent}"]
        _run(session, "git status; git log; git stash")
        _commit(session, "two")
        assert len(asked) == 1
        _run(session, "./evil; git commit --allow-empty -qm three")  # a program beside git could use the agent, too
        assert len(asked) == 2 and "./evil" in asked[1]
        look = "cat ~/.ssh/id_ed25519; ls ~/.gnupg; ssh-add -l; gpg-connect-agent /bye"
        assert "ED25519" not in _run(session, f"true; {look}")
    raw = subprocess.run(["git", "cat-file", "commit", "HEAD"], cwd=home / "project", check=True, capture_output=True)
    assert b"\nthree\n" in raw.stdout and b"gpgsig " in raw.stdout


def test_a_commit_that_must_be_signed_is_never_made_unsigned(home: Path, agent: str) -> None:
    subprocess.run(["git", "init", "-q"], cwd=home / "project", check=True)
    with _open(home) as session:  # nobody to ask
        assert "to sign with your key" in _commit(session, "one")
    os.environ.pop("SSH_AUTH_SOCK", None)
    if "gpg" in agent:
        subprocess.run(["gpgconf", "--kill", "gpg-agent"], check=True)
    with _open(home) as session:
        text = _commit(session, "two")
        assert "failed to write commit object" in text
        assert "two" not in _run(session, "git log --all --format=%s")


def test_a_rule_lets_a_commit_sign(home: Path, agent: str) -> None:
    (home / ".config/handrail").mkdir(parents=True)
    rule = f"allow Read(/{agent}) for Bash(git commit *)"
    (home / ".config/handrail/policy.toml").write_text(f'rules = ["{rule}"]\n', encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=home / "project", check=True)
    with _open(home) as session:
        assert _commit(session, "one").startswith("one\n")


def test_toolchains_in_the_home_work(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    for number, (place, files) in enumerate(TOOLCHAINS.items()):
        name = f"tool-{number}"
        program, data = (home / file.format(name) for file in files)
        if "current" in place:
            (home / ".sdkman/candidates/java/21/bin").mkdir(parents=True)
            (home / ".sdkman/candidates/java/current").symlink_to("21")
        for path in (program, data):
            path.parent.mkdir(parents=True, exist_ok=True)
        data.write_text(f"{name} works\n", encoding="utf-8")
        program.write_text(f"#!/bin/sh\ncat {data}\n", encoding="utf-8")
        program.chmod(0o755)
        names.append(name)
        monkeypatch.setenv("PATH", f"{home / place}:{os.environ['PATH']}")
    with _open(home) as session:
        text = _run(session, "; ".join(names))
        assert [name for name in names if f"{name} works" not in text] == []


def test_a_program_in_a_hidden_tree_is_named_with_the_rule_that_shows_it(home: Path) -> None:
    tools = home / "tools/py/bin"
    tools.mkdir(parents=True)
    (tools / "python").symlink_to(shutil.which("python3") or "")
    (tools / "run").write_text("#!/bin/sh\necho it runs\n", encoding="utf-8")
    (tools / "run").chmod(0o755)
    (home / "project/run").symlink_to(tools / "run")
    asked: list[Question] = []

    def answer(question: Question) -> Answer:
        asked.append(question)
        return Answer(True, lasting="always")

    (home / "project/script.sh").write_text("./run\n", encoding="utf-8")
    with _open(home, approve=answer) as session:
        hidden = session.call("Bash", {"command": "sh script.sh"})
        assert "it runs" not in hidden.text and asked == []
        (note,) = hidden.notes
        assert f"{tools}/run" in note.text and f"allow Read(/{tools}/**)" in hidden.advice
        assert "it runs" in _run(session, f"{tools}/run; touch x")
        assert [f"allow Read(/{tools}/**)"] == [line for one in asked for line in one.verdict.allow.split("\n")]
    with _open(home, approve=answer) as later:  # "always" has added the tree
        assert "it runs" in _run(later, "./run; touch y") and len(asked) == 1


def test_an_approved_command_sees_what_it_names_and_no_more(home: Path) -> None:
    (home / "more").mkdir()
    (home / "more/x").write_text(CANARY, encoding="utf-8")
    code = "import os,sys; print(open(sys.argv[1]).read(), os.listdir(os.path.expanduser('~')))"
    with _open(home, approve=lambda _: True) as session:
        text = _run(session, f'python3 -c "{code}" ~/data/note.txt; touch x')
    assert CANARY in text and "more" not in text


# Everyday tools, each in a new home. Packages come from folders.


def _require(*names: str) -> None:
    for name in names:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def test_pip_installs_from_a_folder(home: Path) -> None:
    package = home / "project/dist"
    package.mkdir()
    with _open(home, approve=lambda _: True) as session:  # it may use the network
        script = "python3 -m venv env && env/bin/python -m pip --version"
        text = _run(session, script, timeout=300)
        if "pip" not in text:
            pytest.skip(f"venv has no pip here: {text}")
        code = (
            "import zipfile\nz = zipfile.ZipFile('dist/tiny-1.0-py3-none-any.whl', 'w')\n"
            "z.writestr('tiny.py', 'print(4711)\\n')\nm = 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n'\n"
            "z.writestr('tiny-1.0.dist-info/METADATA', m)\n"
            "w = 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n'\n"
            "z.writestr('tiny-1.0.dist-info/WHEEL', w)\n"
            "z.writestr('tiny-1.0.dist-info/RECORD', '')\nz.close()\n"
        )
        (home / "project/build.py").write_text(code, encoding="utf-8")
        install = "python3 build.py && env/bin/python -m pip install -q --no-index --find-links dist tiny"
        assert "4711" in _run(session, f"{install} && env/bin/python -c 'import tiny'", timeout=300)


def test_npm_installs_from_a_folder(home: Path) -> None:
    _require("npm", "node")
    (home / ".npm/_cacache").mkdir(parents=True)
    tiny = home / "project/tiny"
    tiny.mkdir()
    (tiny / "package.json").write_text('{"name": "tiny", "version": "1.0.0", "main": "main.js"}', encoding="utf-8")
    (tiny / "main.js").write_text("console.log(4711)\n", encoding="utf-8")
    (home / "project/package.json").write_text('{"name": "app", "version": "1.0.0"}', encoding="utf-8")
    with _open(home, approve=lambda _: True) as session:  # it may use the network
        install = "npm pack ./tiny && npm install --offline --no-audit --no-fund ./tiny-1.0.0.tgz"
        packed = f"{install} && node -e 'require(\"tiny\")'"
        assert "4711" in _run(session, packed, timeout=300)
    assert os.listdir(home / ".npm/_cacache") == []


def test_cargo_builds_with_a_package_from_a_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _require("cargo")
    for variable, name in (("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")):  # a toolchain of another home
        monkeypatch.setenv(variable, os.environ.get(variable) or os.path.join(REAL_HOME, name))
    table = '[package]\nname = "{}"\nversion = "0.1.0"\nedition = "2021"\n'
    files = {
        "app/Cargo.toml": table.format("app") + '[dependencies]\ntiny = { path = "../tiny" }\n',
        "app/src/main.rs": 'fn main() { println!("{}", tiny::number()); }\n',
        "tiny/Cargo.toml": table.format("tiny"),
        "tiny/src/lib.rs": "pub fn number() -> i32 { 4711 }\n",
    }
    _write(home / "project", files)
    with _open(home, approve=lambda _: True) as session:  # it may use the network
        assert "4711" in _run(session, "cd app && cargo run -q --offline", timeout=300)


def test_go_builds_with_a_package_from_a_folder(home: Path) -> None:
    _require("go")
    files = {
        "app/go.mod": "module app\n\ngo 1.20\n\nrequire tiny v0.0.0\n\nreplace tiny => ../tiny\n",
        "app/main.go": 'package main\n\nimport "tiny"\n\nfunc main() { println(tiny.Number()) }\n',
        "tiny/go.mod": "module tiny\n\ngo 1.20\n",
        "tiny/tiny.go": "package tiny\n\nfunc Number() int { return 4711 }\n",
    }
    _write(home / "project", files)
    with _open(home, approve=lambda _: True) as session:  # it may use the network
        assert "4711" in _run(session, "cd app && GOFLAGS=-mod=mod GOTOOLCHAIN=local go run .", timeout=300)
    assert not (home / "go").exists() and not (home / ".cache").exists()


def test_pytest_and_a_formatter_run(home: Path) -> None:
    _write(home / "project", {"test_it.py": "def test_it( ):\n    assert 4711\n"})
    with _open(home) as session:
        assert "1 passed" in _run(session, f"{shlex.quote(sys.executable)} -m pytest -q test_it.py", timeout=300)
        ruff = Path(sys.executable).with_name("ruff")
        if not ruff.exists():
            pytest.skip("ruff is not installed beside this Python")
        assert "1 file reformatted" in _run(session, f"{shlex.quote(str(ruff))} format test_it.py")
    assert (home / "project/test_it.py").read_text(encoding="utf-8").startswith("def test_it():")


def test_make_works(home: Path) -> None:
    _require("make")
    (home / "project/Makefile").write_text("all:\n\tpython3 -m compileall -q . && echo 4711 > out\n", encoding="utf-8")
    with _open(home) as session:
        assert "4711" in _run(session, "make && cat out")


def test_gh_is_asked_about(home: Path) -> None:
    asked: list[Question] = []

    def answer(question: Question) -> bool:
        asked.append(question)
        return False

    with _open(home, approve=answer) as session:
        assert session.call("Bash", {"command": "gh pr create --title x --body y"}).status == "denied"
    assert len(asked) == 1
