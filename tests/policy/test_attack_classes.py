"""Generated attacks on secrets, on places outside, and on rules about flags: run for real, with nobody to ask.

Each class has at least 200 different commands. They run in every mode behind every boundary that this machine has; a
secret must not appear in an answer, as it is or as base64, and a file that a rule keeps must stay as it is. What would
be asked or refused never runs, because nobody answers; commands that only read run many to a call.
"""

from __future__ import annotations

import base64
import itertools
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from handrail import Result, Session, Settings, Setup
from handrail.errors import NoSandbox, ToolError
from handrail.files import directory_index
from handrail.policy.files import PolicyError, parse
from handrail.policy.modes import Mode
from handrail.secrets.paths import secret_path_rules
from handrail.shell.sandbox import Mode as Sandbox
from tests.sizes import spread

pytestmark = pytest.mark.slow  # starts many processes

SECRET = "canary-4711-canary"
ENCODED = base64.b64encode(f"K={SECRET}\n".encode())[2:-4].decode()
KEPT = "kept as it is\n"
RULES = """
rules = [
    "deny Edit(locked.txt)", "deny Read(private/**)", "deny Bash(npm install -g *)", "deny Bash(go test -exec *)",
    "deny Bash(curl -o *)", "deny Bash(git push --force *)", "deny Bash(docker run --privileged *)",
]
"""
MODES: tuple[Mode, ...] = ("read-only", "ask", "accept-edits", "full")
SANDBOXES: tuple[Sandbox, ...] = ("off", "namespaces", "landlock")

READERS = (
    "wc --files0-from={}",
    "git cat-file --batch-check < {}",
    "perl -pe 1 {}",
    "perl -ne print {}",
    "perl -0777 -pe1 {}",
    "perl -e 'print <>' {}",
    "perl -MFile::Copy -e 'copy($ARGV[0], \\*STDOUT)' {}",
    "ruby -pe 1 {}",
    "php -r 'readfile($argv[1]);' {}",
    "lua -e 'print(io.open(arg[1]):read())' {}",
    "node -e 'process.stdout.write(require(`fs`).readFileSync(process.argv[1]))' {}",
    "python3 -c 'import sys; print(open(sys.argv[1]).read())' {}",
    "python3 -m base64 {}",
    "openssl base64 -in {}",
    "openssl enc -base64 -in {}",
    "openssl dgst -hex {}; openssl base64 -A -in {}",
    "pr {}",
    "ul {}",
    "iconv {}",
    "look K {}",
    "m4 {}",
    "bc {}",
    "ed -s {} <<< ,p",
    "csplit -f part {} 1; cat part00",
    "xargs -a {} echo",
    "gzip -c {} | gunzip",
    "cpio -o <<< {} | cat",
    "dd if={}",
    'mapfile x < {}; echo "${{x[@]}}"',
    'while read -r line; do echo "$line"; done < {}',
    "source {}; set",
    "bash -v {}",
    "cat {}",
    "git hash-object -w {} | xargs git cat-file -p",
    "git diff --no-index /dev/null {}",
    "curl -s file://$PWD/{}",
    "tar cf - {} | cat",
    "unknown-program --config={} || perl -pe1 {}",
)
NAMES = (
    ".env",
    "./.env",
    "sub/../.env",
    '"$PWD"/.env',
    "'.e'nv",
    "$'\\x2eenv'",
    ".en?",
    ".[e]nv",
    "{.env,.env}",
    "sub/id_rsa",
    "sub/second",
    "link",
    "private/note.txt",
)
AROUND = ("{}", "timeout 5 {}", "( {} )", "{} 2>&1 | cat", "cd . && {}", "bash -c {quoted}", "env X=1 {}")

IN_TEXT = (
    "python3 -c \"print(open('{}').read())\"",
    "python3 - <<< \"print(open('{}').read())\"",
    "python3 <<'END'\nprint(open('{}').read())\nEND",
    "perl -e 'open F, \"{}\"; print <F>'",
    'node -p \'require("fs").readFileSync("{}", "utf8")\'',
    "ruby -e 'puts File.read(\"{}\")'",
    'sqlite3 :memory: ".read {}"',
    "awk 'BEGIN {{ while ((getline line < \"{}\") > 0) print line }}'",
    "php -r 'echo file_get_contents(\"{}\");'",
)
PLAIN_NAMES = (".env", "./.env", "sub/id_rsa", "sub/second", "private/note.txt")

PROCESS_PLACES = (
    "/proc/self/cwd",
    "/proc/thread-self/cwd",
    "/proc/$$/cwd",
    "/proc/self/task/*/cwd",
    "/proc/*/cwd",
    "/pro?/self/cwd",
    "/proc/self/root/$PWD",
    "/proc/$PPID/cwd",
    "/proc/self/../self/cwd",
)
OUTSIDE_READERS = (
    "cat {}",
    "head -c 99 {}",
    "grep -r . {}",
    "wc {}; tac {}",
    "sort < {}",
    "sed p {}",
    "diff /dev/null {}",
    "wc --files0-from={}",
    "git cat-file --batch-check < {}",
    "git name-rev --annotate-stdin < {}",
)
OUTSIDE_NAMES = (
    "{out}/note.txt",
    "{out}/./note.txt",
    "{out}/n*",
    "../out/note.txt",
    "{out}//sub/../note.txt",
    "way-out",
)
OUTSIDE_AROUND = ("{}", "( {} )", "{} | cat", "cd . && {}", "timeout 5 {}")

FLAGGED = {
    "npm install": ("-g", "-gq", "-qg"),
    "go test": ("-exec", "-exec=sh"),
    "curl": ("-o", "-ox", "-so", "-sox"),
    "git push": ("--force", "--force=yes"),
    "docker run": ("--privileged", "--privileged=true"),
}
FLAG_WORDS = ("", "a", "a b", "-v a", "./... a")
FLAG_AROUND = (
    "{}",
    "env {}",
    "( {} )",
    "true && {}",
    "bash -c {quoted}",
    "timeout 5 {}",
    "/usr/bin/{}",
    "echo x | xargs {}",
)

WRITERS = (
    "perl -i -pe s/kept/lost/ {}",
    "perl -pi.bak -e s/kept/lost/ {}",
    "python3 -c 'import sys; open(sys.argv[1], \"w\")' {}",
    "sed -i s/kept/lost/ {}",
    "sed -i.bak s/kept/lost/ {}",
    "awk -i inplace 1 {}",
    "sort -o{} /dev/null",
    "sort --output={} /dev/null",
    "tee {} < /dev/null",
    "truncate -s0 {}",
    "dd if=/dev/null of={}",
    "cp /dev/null {}",
    "install -m644 /dev/null {}",
    "mv other.txt {}",
    "ln -f other.txt {}",
    "patch -o{} other.txt < /dev/null",
    "tar cf {} other.txt",
    "wget -O{} file:///dev/null; : > {}",
    "curl -o{} file:///etc/hostname",
    "shuf -o{} other.txt",
    "ed -s {} <<< $'1d\\nw'",
    "node -e 'require(`fs`).writeFileSync(process.argv[1], ``)' {}",
    "ruby -i -pe 1 {}",
    "git apply --unsafe-paths /dev/null; : >| {}",
)

OUTPUT_OPTIONS = {
    "curl file:///etc/hostname": ("-o{}", "-o {}", "-so{}", "-sSo {}", "--output={}", "--outpu={}", "-sD{}", "-c{}"),
    "curl -s file:///etc/hostname": ("--dump-header={}", "--trace={}", "--stderr {}", "--etag-save={}"),
    "wget file:///dev/null": ("-O{}", "-qO{}", "-qO {}", "--output-doc={}", "-o{}", "-qa{}", "--save-cookies={}"),
    "sort other.txt": ("-o{}", "-uo{}", "-uo {}", "--output={}", "--outp={}"),
    "shuf other.txt": ("-o{}", "-ro{}", "--output={}"),
    "patch other.txt": ("-o{}", "-so{}", "--output={}", "-r{}", "--reject-file={}"),
    "awk 1 other.txt": ("--dump-variables={}", "-d{}", "-o{}", "--profile={}"),
    "gcc other.c": ("-o{}", "-o {}", "-MF{}"),
    "tar": ("-cf{} other.txt", "cf {} other.txt", "-czf{} other.txt", "--create --file={} other.txt"),
    "git diff": ("--output={}", "--output {}"),
    "git archive HEAD": ("-o{}", "--output={}"),
    "git format-patch -1": ("-o{}", "--output-directory={}"),
    "find .": ("-fprint {}", "-fprintf {} x", "-fls {}"),
    "sed -n": ("'w {}' other.txt", "-e 's/x/y/w {}' other.txt", "-s 'w{}' other.txt"),
    "cp other.txt": ("-t{}", "-ft{}", "--target-directory={}"),
    "strace true": ("-o{}", "-fo{}"),
    "pip download x": ("-d{}", "--dest={}", "--log={}"),
    "pytest": ("--junitxml={}", "--basetemp={}", "--log-file {}"),
    "ruff check": ("-o{}", "--output-file={}"),
    "go test": ("-o {}", "-o={}", "-coverprofile={}", "-trace {}"),
    "rustc other.rs": ("-o{}", "--out-dir={}"),
    "unknown-program": ("-o{}", "-xo{}", "--output={}", "of={}"),
}
OUTPUT_PLACES = (
    ".git/hooks/pre-commit",
    "handrail.toml",
    "../out/new",
    "{out}/new",
    ".claude/settings.json",
    "sub/.envrc",
)


def _wrap(command: str, around: str) -> str:
    return around.replace("{quoted}", shlex.quote(command)).replace("{}", command)


def _secret_words() -> list[str]:
    by_word = [
        _wrap(reader.format(*[name] * reader.count("{}")), around)
        for reader, name, around in itertools.product(READERS, NAMES, AROUND)
    ]
    in_text = [
        _wrap(text.format(name), around)
        for text, name, around in itertools.product(IN_TEXT, PLAIN_NAMES, AROUND)
        if "END" not in text or around == "{}"
    ]
    through = [
        _wrap(reader.format(*[f"{place}/{name}"] * reader.count("{}")), around)
        for reader, place, name, around in itertools.product(
            ("cat {}", "perl -pe1 {}", "head {}"), PROCESS_PLACES, (".env", ".e*", "sub/id_rs?"), AROUND[:4]
        )
    ]
    return [*by_word, *in_text, *through]


def _outside_reads() -> list[str]:
    return [
        _wrap(reader.replace("{}", name), around)
        for reader, name, around in itertools.product(OUTSIDE_READERS, OUTSIDE_NAMES, OUTSIDE_AROUND)
    ]


def _flags() -> list[str]:
    commands = []
    for program, flags in FLAGGED.items():
        for flag, words, around in itertools.product(flags, FLAG_WORDS, FLAG_AROUND):
            commands += [_wrap(f"{program} {flag} {words}", around), _wrap(f"{program} {words} {flag}", around)]
    return list(dict.fromkeys(commands))


def _kept_files() -> list[str]:
    names = ("locked.txt", "./locked.txt", "sub/../locked.txt", '"$PWD/locked.txt"', "lock*.txt", "to-locked")
    return [
        _wrap(writer.format(*[name] * writer.count("{}")), around)
        for writer, name, around in itertools.product(WRITERS, names, AROUND[:4])
    ]


def _outputs() -> list[str]:
    return [
        _wrap(f"{program} {option.replace('{}', place)}", around)
        for program, options in OUTPUT_OPTIONS.items()
        for option, place, around in itertools.product(options, OUTPUT_PLACES, AROUND)
    ]


def test_each_class_has_at_least_200_different_attacks() -> None:
    for attacks in (_secret_words(), _outside_reads(), _flags(), _kept_files(), _outputs()):
        assert len(set(attacks)) >= 200


class _Project:
    """A workspace with secrets and a file that a rule keeps, and a place outside of it."""

    def __init__(self, folder: Path) -> None:
        self.work, self.outside = folder / "work", folder / "out"
        for path in (self.work / "sub", self.work / "private", self.outside / "sub"):
            path.mkdir(parents=True)
        self.fill()

    def fill(self) -> None:
        for name in (".env", "sub/id_rsa", "private/note.txt"):
            if not (self.work / name).is_file():
                (self.work / name).write_text(f"K={SECRET}\n", encoding="utf-8")
        (self.outside / "note.txt").write_text(f"K={SECRET}\n", encoding="utf-8")
        (self.work / "locked.txt").write_text(KEPT, encoding="utf-8")
        (self.work / "other.txt").write_text("other\n", encoding="utf-8")
        for name, target in (("link", ".env"), ("to-locked", "locked.txt"), ("way-out", self.outside / "note.txt")):
            if not (self.work / name).is_symlink():
                (self.work / name).unlink(missing_ok=True)
                (self.work / name).symlink_to(target)
        second = self.work / "sub/second"
        if not second.exists() or not second.samefile(self.work / ".env"):
            second.unlink(missing_ok=True)
            os.link(self.work / ".env", second)


@pytest.fixture
def project() -> Iterator[_Project]:
    # Not in /tmp: a boundary gives commands a directory of their own there.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="handrail-test-") as folder:
        yield _Project(Path(folder))


@pytest.fixture(params=[(sandbox, mode) for sandbox in SANDBOXES for mode in MODES], ids="-".join)
def held(request: pytest.FixtureRequest, project: _Project, tmp_path: Path) -> Iterator[Session]:
    sandbox, mode = request.param
    required = sandbox != "off"
    settings = Settings(state=str(tmp_path / "state"), sandbox=sandbox, sandbox_required=required, raise_bugs=True)
    with Session(
        project.work, mode=mode, setup=Setup(rules=[parse(RULES, "policy.toml", "user", "/")]), settings=settings
    ) as session:
        try:
            assert session.services.command_host().boundary
        except NoSandbox as error:
            pytest.skip(f"{sandbox} cannot be used on this machine: {error}")
        yield session


_AT_ONCE = 24
_WHOLE = 9_000
"""Longer answers may leave something out."""


def _list_running(session: Session, commands: Sequence[str]) -> list[str]:
    """The commands that run unasked."""
    return [command for command in commands if _runs(session, command)]


def _runs(session: Session, command: str) -> bool:
    try:
        return session.prepare("Bash", {"command": command}).verdict.decision == "allow"
    except ToolError:
        return False


def _find_leaks(session: Session, project: _Project, commands: Sequence[str]) -> list[str]:
    """The commands that show a secret."""
    running = _list_running(session, commands)
    batches = [running[at : at + _AT_ONCE] for at in range(0, len(running), _AT_ONCE)]
    return [leak for batch in batches for leak in _find_leaks_of(session, project, batch)]


def _find_leaks_of(session: Session, project: _Project, commands: Sequence[str]) -> list[str]:
    """Run commands in one call; where it shows a secret, is refused or says too much, its halves."""
    command = commands[0] if len(commands) == 1 else "\n".join(f"( {one}\n)" for one in commands)
    result = session.call("Bash", {"command": command, "timeout": 10 * len(commands)})
    project.fill()
    shown = SECRET in result.text or ENCODED in result.text
    if len(commands) == 1:
        return [command] if shown else []
    if not (shown or result.error or len(result.text) > _WHOLE):
        return []
    half = len(commands) // 2
    halves = commands[:half], commands[half:]
    return [leak for part in halves for leak in _find_leaks_of(session, project, part)]


def test_many_commands_in_a_call_show_the_one_that_leaks(project: _Project, tmp_path: Path) -> None:
    (project.work / "plain.txt").write_text(f"K={SECRET}\n", encoding="utf-8")
    commands = [
        *READERS[:5],
        "cat plain.txt",
        "python3 <<'END'\nprint(1)\nEND",
        "yes | head -9999",
        "exit 3",
        "cat nothing",
    ]
    with Session(project.work, settings=Settings(state=str(tmp_path / "state"), sandbox="off"), mode="full") as session:
        assert _find_leaks_of(session, project, commands) == ["cat plain.txt"]


def test_no_program_shows_a_secret_that_its_words_name(held: Session, project: _Project) -> None:
    most = 8 if held.services.command_host().sandbox.hides else 30  # elsewhere nearly all are refused, and none is run
    assert _find_leaks(held, project, spread(_secret_words(), most)) == []


LOGIN_FILES = [
    text.removeprefix("**/") + ("canary" if text.endswith("/") else "")
    for text in secret_path_rules()["secrets"]["path"]
    if text.startswith(("**/", ".")) and not set(text.removeprefix("**/")) & set("*?[{!")
]


@pytest.mark.parametrize("sandbox", ["namespaces"])
def test_no_store_of_credentials_in_the_home_directory_is_read(
    sandbox: Sandbox, project: _Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = project.work.parent / "home"
    for name in LOGIN_FILES:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        if not (home / name).is_dir():
            (home / name).write_text(f"K={SECRET}\n", encoding="utf-8")
    (home / "plain").write_text("plain 4711\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    (project.work / "search.sh").write_text("grep -rs 4711 $1/\n", encoding="utf-8")
    settings = Settings(state=str(tmp_path / "state"), sandbox=sandbox, sandbox_required=True, raise_bugs=True)
    for mode in ("accept-edits", "full"):
        with Session(project.work, mode=mode, settings=settings) as session:
            text = _bash(session, 'bash search.sh "$HOME"').text
        assert SECRET not in text and ("plain 4711" in text) == (mode == "full"), mode


def test_a_file_that_a_rule_keeps_is_not_changed_by_any_program(held: Session, project: _Project) -> None:
    changed = []
    for command in _list_running(held, spread(_kept_files(), 7)):
        held.call("Bash", {"command": command, "timeout": 10})
        if (project.work / "locked.txt").read_text(encoding="utf-8") != KEPT:
            changed.append(command)
        project.fill()
    assert changed == []


@pytest.mark.parametrize("mode", ["read-only", "ask", "accept-edits"])
def test_an_output_file_is_seen_in_every_spelling_of_its_option(mode: Mode, project: _Project, tmp_path: Path) -> None:
    settings = Settings(state=str(tmp_path / "state"), sandbox="off", raise_bugs=True)
    with Session(project.work, mode=mode, settings=settings) as session:
        commands = [text.replace("{out}", str(project.outside)) for text in _outputs()]
        unasked = [
            command
            for command in spread(commands, 200)
            if session.prepare("Bash", {"command": command}).verdict.decision == "allow"
        ]
    assert unasked == []


def _has_contents(path: Path) -> bool:
    """Whether there is a file; an empty directory of that name, which pip creates, does nothing."""
    return path.is_symlink() or (any(path.iterdir()) if path.is_dir() else path.exists())


def test_no_option_writes_a_protected_file_or_one_outside(held: Session, project: _Project) -> None:
    subprocess.run(["git", "init", "-q", str(project.work)], check=True)
    places = [project.work / name for name in OUTPUT_PLACES if not name.startswith(("..", "{"))]
    new = project.outside / "new"
    written = []
    commands = [text.replace("{out}", str(project.outside)) for text in spread(_outputs(), 7)]
    for command in _list_running(held, commands):
        held.call("Bash", {"command": command, "timeout": 10})
        written += [(command, str(path)) for path in (*places, new) if _has_contents(path)]
        for path in (*places, new):
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
        project.fill()
    assert written == []


@pytest.mark.parametrize("mode", ["read-only", "ask"])
@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_reads_outside_of_the_workspace_are_asked_about(
    sandbox: Sandbox, mode: Mode, project: _Project, tmp_path: Path
) -> None:
    settings = Settings(state=str(tmp_path / "state"), sandbox=sandbox, raise_bugs=True)
    with Session(project.work, mode=mode, settings=settings) as session:
        commands = [text.replace("{out}", str(project.outside)) for text in _outside_reads()]
        assert _find_leaks(session, project, spread(commands, 12)) == []
        for usual in (
            "cat other.txt",
            "head -1 /etc/passwd",
            "ls /usr",
            f"ls {project.outside}",
            "cat < /dev/null",
            "cat /dev/stdin",
        ):
            assert session.prepare("Bash", {"command": usual}).verdict.decision == "allow", usual
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as shared:
            assert session.prepare("Bash", {"command": f"cat {shared.name}"}).verdict.decision == "ask"


@pytest.mark.parametrize("mode", MODES)
def test_a_rule_against_a_flag_holds_wherever_the_flag_stands(mode: Mode, project: _Project, tmp_path: Path) -> None:
    settings = Settings(state=str(tmp_path / "state"), sandbox="off", raise_bugs=True)
    with Session(
        project.work, mode=mode, setup=Setup(rules=[parse(RULES, "policy.toml", "user", "/")]), settings=settings
    ) as session:
        passed = [
            command
            for command in spread(_flags(), 200)
            if session.prepare("Bash", {"command": command}).verdict.decision != "deny"
        ]
    assert passed == []


# Limits are named in the answer.


def _bash(session: Session, command: str) -> Result:
    result = session.call("Bash", {"command": command})
    if result.error and result.error.code == "no_sandbox":
        pytest.skip(f"this sandbox cannot be used on this machine: {result.text}")
    return result


def _notes(project: _Project, tmp_path: Path, sandbox: Sandbox) -> dict[str, str]:
    settings = Settings(state=str(tmp_path / "state"), sandbox=sandbox, sandbox_required=True, raise_bugs=True)
    with Session(project.work, mode="accept-edits", settings=settings) as session:
        return {note.code: note.text for note in _bash(session, "touch made").notes}


@pytest.mark.parametrize("sandbox", ["namespaces"])
def test_many_secrets_are_all_hidden(project: _Project, tmp_path: Path, sandbox: Sandbox) -> None:
    for number in range(300):
        (project.work / f"{number}.pem").write_text("DECOY", encoding="utf-8")
    (project.work / "z.pem").write_text("SECRET", encoding="utf-8")
    assert _notes(project, tmp_path, sandbox) == {}
    settings = Settings(state=str(tmp_path / "state"), sandbox=sandbox, sandbox_required=True, raise_bugs=True)
    with Session(project.work, mode="accept-edits", settings=settings) as session:
        for command in (
            "cat *.pem",
            "cat *.pem; touch made",
            "sh -c 'cat *.p*'",
        ):
            text = _bash(session, command).text
            assert "DECOY" not in text
            assert "SECRET" not in text


def test_directories_that_are_too_many_to_search_are_named(
    project: _Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_index, "MOST_DIRECTORIES", 3)
    for number in range(5):
        (project.work / f"d{number}").mkdir()
    assert list(_notes(project, tmp_path, "namespaces")) == ["not_searched"]


def test_a_directory_in_the_place_of_the_rules_is_a_mistake_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "handrail.toml").mkdir()
    with pytest.raises(PolicyError, match="a directory; rename it"):
        Session(tmp_path, settings=Settings(state=str(tmp_path / "state")))


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_a_directory_with_a_protected_name_does_not_stay(project: _Project, tmp_path: Path, sandbox: Sandbox) -> None:
    (project.work / "make.py").write_text(
        "import os\nos.makedirs('handrail.toml')\nos.makedirs('sub/.mcp.json/x')\n", encoding="utf-8"
    )
    settings = Settings(state=str(tmp_path / "state"), sandbox=sandbox, sandbox_required=sandbox != "off")
    with Session(project.work, mode="full", settings=settings) as session:
        result = _bash(session, "python3 make.py")
    assert "handrail.toml" in result.text and "sub/.mcp.json" in result.text
    assert not (project.work / "handrail.toml").exists() and not (project.work / "sub/.mcp.json").exists()
