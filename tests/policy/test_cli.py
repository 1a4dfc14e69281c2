"""`handrail policy`: explain, test and trust, as a person types them."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path

import pytest

from handrail.cli import policy as verb
from handrail.cli.output import Stop, UsageError


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No rules and no configuration of whoever runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
    monkeypatch.delenv("HANDRAIL_CONFIG", raising=False)


def _run(*words: str) -> int:
    return verb.run(verb.parser().parse_intermixed_args(words))


def test_explain_names_verdict_rule_place_reason_touches_and_what_would_allow_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("-w", str(tmp_path))
    assert _run("explain", "Write", '{"file_path": "a.py", "content": ""}', *at) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ask: Write",
        "  rule    mode ask: write",
        "  where   built in",
        "  why     a.py would be changed",
        "  access  write a.py: ask",
        f"  allow   allow Edit(/{tmp_path.resolve()}/a.py)",
    ]
    text = '# mine\n[[rules]]\naction = "read"\npath = "*.csv"\ntier = "deny"\nwhy = "customers"\n'
    (tmp_path / "handrail.toml").write_text(text, encoding="utf-8")
    assert _run("explain", "Read", '{"file_path": "x/a.csv"}', *at) == 3
    source = f"{tmp_path.resolve()}/handrail.toml:2"
    assert capsys.readouterr().out.splitlines() == [
        "deny: Read",
        "  rule    deny read *.csv",
        f"  where   {source}",
        "  why     customers",
        "  access  read x/a.csv: deny",
        f"  allow   no rule: change {source}",
    ]


def test_explain_speaks_json_and_knows_modes_and_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = ("-w", str(tmp_path), "--json")
    (tmp_path / "handrail.toml").write_text("rules = ['deny Bash(git push:*)']", encoding="utf-8")
    assert _run("explain", "Bash", '{"command": "git push"}', "--mode", "full", *at) == 3
    report = json.loads(capsys.readouterr().out)
    assert (report["decision"], report["rule"], report["allow"]) == ("deny", "deny Bash(git push:*)", [])
    assert report["source"] == f"{tmp_path.resolve()}/handrail.toml:1"
    assert ("run", "git push", "deny") in [
        (one["action"], one["target"], one["decision"]) for one in report["accesses"]
    ]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["explain", "Read"], "takes TOOL and one JSON object"),
        (["test", "x"], "takes no arguments"),
        (["explain", "Read", "{"], "not valid JSON"),
        (["test", "-w", "/no/such/place"], "does not exist"),
    ],
)
def test_wrong_words_are_explained(words: list[str], wanted: str) -> None:
    with pytest.raises(UsageError, match=wanted):
        _run(*words)


def test_what_the_boundary_refuses_never_comes_to_policy(tmp_path: Path) -> None:
    with pytest.raises(Stop, match="the call is not valid: "):
        _run("explain", "Read", '{"file_path": "/etc/hostname"}', "-w", str(tmp_path))


def test_test_counts_the_examples_and_names_what_never_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("-w", str(tmp_path))
    assert _run("test", *at) == 0
    assert capsys.readouterr().out == "No rule files; the built-in rules apply.\n"
    path = tmp_path / "handrail.toml"
    text = (
        '[[rules]]\naction = "read"\npath = "*.csv"\ntier = "deny"\nmatch = ["a.csv", "x/b.csv"]\nnot_match = ["a"]\n'
    )
    path.write_text(text, encoding="utf-8")
    assert _run("test", *at) == 0
    real = path.resolve()
    assert capsys.readouterr().out == (
        f"{real}: 1 rules, 3 examples pass (project, not trusted: its allow rules, checks and hooks do not count)\n"
    )
    path.write_text(text + '[[rules]]\naction = "read"\npath = "x/*.csv"\ntier = "ask"\n', encoding="utf-8")
    assert _run("test", *at) == 1
    wanted = f"{real}:7: never takes effect: ask read x/*.csv: {real}:1 decides first: deny read *.csv\n"
    assert capsys.readouterr().err == wanted
    path.write_text(text.replace('"a.csv"', '"a.tsv"'), encoding="utf-8")
    with pytest.raises(UsageError, match=r"handrail\.toml:5: match: a\.tsv is not matched"):
        _run("test", *at)


def test_trust_needs_a_person_or_the_hash_of_what_was_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("-w", str(tmp_path))
    with pytest.raises(UsageError, match=r"there is no handrail\.toml"):
        _run("trust", *at)
    text = "rules = ['allow Edit(src/**)', 'deny Read(x)']\n"
    (tmp_path / "handrail.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="no terminal to ask at"):
        _run("trust", *at)
    with pytest.raises(UsageError, match="it is not the reviewed version"):
        _run("trust", "--sha256", "abc", *at)
    call = ("explain", "Write", '{"file_path": "src/a", "content": ""}', *at)
    capsys.readouterr()
    assert _run(*call) == 0
    assert capsys.readouterr().out.startswith("ask: Write")
    assert _run("trust", "--sha256", hashlib.sha256(text.encode()).hexdigest(), *at) == 0
    output = capsys.readouterr().out
    assert "handrail.toml:1: allow Edit(src/**)\n" in output and "deny Read" not in output
    assert _run(*call) == 0
    assert capsys.readouterr().out.startswith("allow: Write\n  rule    allow Edit(src/**)\n")


class _Typed(io.StringIO):
    """What a person types at a terminal."""

    def isatty(self) -> bool:
        return True


def test_trust_shows_what_it_is_about_and_takes_yes_for_yes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "handrail.toml").write_text("rules = ['allow Edit(src/**)']\n", encoding="utf-8")
    for typed in ("", "\n", "n\n", "yes please\n"):
        monkeypatch.setattr("sys.stdin", _Typed(typed))
        with pytest.raises(Stop, match="not trusted; nothing was changed"):
            _run("trust", "-w", str(tmp_path))
    monkeypatch.setattr("sys.stdin", _Typed("y\n"))
    assert _run("trust", "-w", str(tmp_path)) == 0
    assert capsys.readouterr().out.endswith("Trusted in its current version; a change of the file ends the trust.\n")
    assert _run("trust", "-w", str(tmp_path)) == 0
    assert capsys.readouterr().out.endswith("Already trusted.\n")


@pytest.mark.parametrize(("command", "named"), [("grep -r x .", "conf/.env"), ("cat conf/.e*", "conf/.env")])
def test_explain_names_the_file_that_a_pattern_or_a_directory_comes_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, named: str
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/.env").write_text("KEY=1\n", encoding="utf-8")
    _run("explain", "Bash", json.dumps({"command": command}), "-w", str(tmp_path), "--mode", "full")
    output = capsys.readouterr().out
    assert named in output.replace(command, "")  # refused, or hidden by a boundary


def test_test_tells_rules_for_one_directory_from_those_for_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        '{ rule = "deny Bash(make)", in = "/srv/a" }',
        '"allow Bash(make)"',
        '{ rule = "allow Bash(make)", in = "/b" }',
    ]
    (tmp_path / "handrail.toml").write_text(f"rules = [{', '.join(rows[:2])}]\n", encoding="utf-8")
    assert _run("test", "-w", str(tmp_path)) == 1  # not trusted, and that is all
    assert "decides first" not in capsys.readouterr().err
    (tmp_path / "handrail.toml").write_text(f"rules = [{', '.join(rows)}]\n", encoding="utf-8")
    _run("test", "-w", str(tmp_path))
    assert capsys.readouterr().err.count("never takes effect") == 2
