"""`handrail mcp install` on configuration files as the clients write them: put in, again, taken out, same bytes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handrail.cli import mcp_install as command
from handrail.mcp.install.changes import get_value, read_data
from handrail.mcp.install.entry import InstallError, InstallReport, load_clients
from handrail.settings.toml_file import remove_value

CLAUDE = (
    '{\n  "numStartups": 41,\n  "tipsHistory": {"new-user-warmup": 3},\n  "projects": {\n    "/srv/a/app": {\n'
    '      "allowedTools": [],\n      "mcpServers": {}\n    }\n  },\n  "mcpServers": {\n    "github": {\n'
    '      "type": "http",\n      "url": "https://example.com/mcp"\n    }\n  },\n  "userID": "\\u00e9\\/x"\n}'
)
CODEX = (
    'model = "gpt-5"  # the usual one\napproval_policy = "on-request"\n\n[mcp_servers.docs]\ncommand = "npx"\n'
    'args = [\n  "-y",\n  "docs-mcp",\n]\n\n[mcp_servers.docs.env]\nTOKEN = "x"\n\n# projects I trust\n'
    '[projects."/srv/a/app"]\ntrust_level = "trusted"\n'
)
GEMINI = '{\n\t"theme": "Default",\n\t// the key of the office\n\t"selectedAuthType": "gemini-api-key"\n}\n'
OPENCODE = (
    '{\n  "$schema": "https://opencode.ai/config.json",\n  /* tools */\n  "mcp": {\n    "everything": {\n'
    '      "type": "local",\n      "command": ["npx", "-y", "server-everything"], // demo\n      "enabled": true,\n'
    "    }, // last one\n  },\n}\n"
)
OPENCODE_2 = '{\n  "mcp": {\n    "servers": {}\n  }\n}\n'
VSCODE = (
    '{\r\n    // for the team\r\n    "inputs": [],\r\n    "servers": {\r\n        "fetch": {\r\n'
    '            "type": "stdio",\r\n            "command": "uvx",\r\n            "args": ["mcp-server-fetch"]\r\n'
    "        } // keep\r\n    }\r\n}\r\n"
)
ZED = (
    "// Zed settings\n//\n// For information, see https://zed.dev/docs\n{\n"
    '  "theme": "One Dark",\n  "context_servers": {\n    "a": { "command": "a", "args": [] },\n  },\n}\n'
)
# client, scope, where its file is (below HOME or the project), what is in it
FILES = [
    ("claude", "user", ".claude.json", CLAUDE),
    ("claude", "project", ".mcp.json", '{"mcpServers":{"a":{"command":"a"}}}'),
    ("codex", "user", ".codex/config.toml", CODEX),
    ("codex", "project", ".codex/config.toml", "# nothing yet"),
    ("gemini", "user", ".gemini/settings.json", GEMINI),
    ("gemini", "project", ".gemini/settings.json", '{"theme": "Dark"}\n'),
    ("qwen", "user", ".qwen/settings.json", '{\n    "mcpServers": {\n    }\n}\n'),
    ("qwen", "project", ".qwen/settings.json", "{}"),
    ("opencode", "user", ".config/opencode/opencode.jsonc", OPENCODE),
    ("opencode", "project", "opencode.json", OPENCODE_2),
    (
        "copilot",
        "user",
        ".copilot/mcp-config.json",
        '{\n  "mcpServers": { "x": { "type": "local", "command": "x" } }\n}',
    ),
    ("copilot", "project", ".mcp.json", "\ufeff{\n  // none\n}\n"),
    ("cursor", "user", ".cursor/mcp.json", '{ "mcpServers": { /* none */ } }\n'),
    ("cursor", "project", ".cursor/mcp.json", ""),
    ("vscode", "user", ".config/Code/User/mcp.json", '{"servers":{}, "inputs": []}'),
    ("vscode", "project", ".vscode/mcp.json", VSCODE),
    ("claude-desktop", "user", ".config/Claude/claude_desktop_config.json", '{\n  "globalShortcut": ""\n}\n'),
    ("zed", "user", ".config/zed/settings.json", ZED),
    ("zed", "project", ".zed/settings.json", "{}\n"),
    ("windsurf", "user", ".codeium/windsurf/mcp_config.json", '{"mcpServers": {}}'),
    ("cline", "user", ".cline/data/settings/cline_mcp_settings.json", '{\n  "mcpServers": {\n  }\n}'),
    ("roo", "project", ".roo/mcp.json", '{"mcpServers": {"a": {"command": "a"}}}'),
    ("kimi", "user", ".kimi/mcp.json", '{\n  "mcpServers": {}\n}\n'),
    ("kimi", "project", ".kimi-code/mcp.json", ""),
    ("crush", "user", ".config/crush/crush.json", '{\n  "$schema": "https://charm.land/crush.json",\n  "lsp": {}\n}\n'),
    ("crush", "project", ".crush.json", '{"options": {"disabled_tools": ["sourcegraph"]}}'),
]
CLINE = ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
EDITED = {name: kind for name, kind in load_clients().items() if name != "goose"}
"""Goose's file is YAML: a person adds the lines."""
NEED_ROOT = {"claude-desktop", "windsurf", "cline", "roo"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME and the project are one fresh folder here; no variable of the outside leads elsewhere."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME", "KIMI_CODE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(client: str, *words: str) -> InstallReport:
    if client in NEED_ROOT and not (words and os.path.isdir(words[0])):
        words = (".", *words)
    return command.run(command.parser().parse_intermixed_args([client, *words]))


HOLDERS = ("mcp", "mcpServers", "mcp_servers", "servers", "context_servers", "extensions")


def entry_of(path: Path) -> tuple[list[str], dict[str, Any]]:
    """Where the server stands in a file, and what it says."""
    data: Any = read_data(str(path), path.read_text(encoding="utf-8"))
    keys: list[str] = []
    while "handrail" not in data:
        (key,) = [one for one in data if one in HOLDERS]
        keys.append(key)
        data = data[key]
    return keys, data["handrail"]


@pytest.mark.parametrize(("client", "scope", "name", "text"), FILES)
def test_a_configuration_comes_back_byte_for_byte(home: Path, client: str, scope: str, name: str, text: str) -> None:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))
    ask(client, "--scope", scope)
    once = path.read_bytes()
    assert once != text.encode("utf-8")
    assert "already" in ask(client, "--scope", scope).out
    assert path.read_bytes() == once
    _, entry = entry_of(path)
    words = entry.get("command", entry.get("cmd"))
    words = words if isinstance(words, list) else [words, *entry["args"]]
    assert words[:4] == [sys.executable, "-P", "-m", "handrail"] and words[4] == "mcp"
    ask(client, "--scope", scope, "--dialect", "claude", "--mode", "read-only")
    assert "read-only" in path.read_text(encoding="utf-8") and path.read_bytes().count(b'"-m"') == 1
    ask(client, "--scope", scope, "--undo")
    assert path.read_bytes() == text.encode("utf-8")


@pytest.mark.parametrize(("client", "scope", "name", "text"), FILES)
def test_everything_outside_the_entry_stays_where_it_is(
    home: Path, client: str, scope: str, name: str, text: str
) -> None:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))
    ask(client, "--scope", scope)
    left = iter(path.read_bytes().decode("utf-8"))
    assert all(character in left for character in text)  # the old text, in order, with something in between
    if text.count("\r\n"):
        assert path.read_bytes().count(b"\n") == path.read_bytes().count(b"\r\n")


@pytest.mark.parametrize(("client", "scope", "name", "text"), FILES)
def test_a_file_that_the_client_has_rewritten_loses_only_the_entry(
    home: Path, client: str, scope: str, name: str, text: str
) -> None:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))
    ask(client, "--scope", scope)
    addition = b"\n# later\n[tui]\nx = 1\n" if name.endswith(".toml") else b"\n\n"
    path.write_bytes(path.read_bytes() + addition)
    ask(client, "--scope", scope, "--undo")
    left = path.read_bytes()
    assert b"handrail" not in left and left.endswith(addition)
    if name.endswith(".toml"):
        assert read_data(name, left.decode()) == read_data(name, text + addition.decode())
    else:
        assert read_data(name, left.decode("utf-8")) == read_data(name, text)
    assert "no entry for Handrail" in ask(client, "--scope", scope, "--undo").out


@pytest.mark.parametrize(
    ("client", "scope"),
    [
        (name, scope)
        for name, kind in EDITED.items()
        for scope in ("user", "project")
        if scope == "user" or kind.project
    ],
)
def test_a_file_made_for_it_is_gone_afterwards_with_its_directories(home: Path, client: str, scope: str) -> None:
    before = sorted(home.rglob("*"))
    ask(client, "--scope", scope)
    assert sorted(home.rglob("*")) != before
    assert "removed" in ask(client, "--scope", scope, "--undo").out
    assert sorted(home.rglob("*")) == before


def test_the_entries_are_what_each_client_reads(home: Path) -> None:
    root = str(home / "app")
    (home / "app").mkdir()
    program, arguments = sys.executable, ["-P", "-m", "handrail", "mcp", root, "--matching", "ladder"]
    plain = {"command": program, "args": arguments}
    stdio = {"type": "stdio", **plain}
    wanted: dict[str, tuple[str, list[str], dict[str, Any]]] = {
        "claude": (".claude.json", ["mcpServers"], stdio),
        "codex": (".codex/config.toml", ["mcp_servers"], plain),
        "gemini": (".gemini/settings.json", ["mcpServers"], plain),
        "qwen": (".qwen/settings.json", ["mcpServers"], plain),
        "opencode": (
            ".config/opencode/opencode.json",
            ["mcp"],
            {"type": "local", "command": [program, *arguments], "enabled": True},
        ),
        "copilot": (".copilot/mcp-config.json", ["mcpServers"], {**stdio, "tools": ["*"]}),
        "cursor": (".cursor/mcp.json", ["mcpServers"], stdio),
        "vscode": ("app/.vscode/mcp.json", ["servers"], stdio),
        "claude-desktop": (".config/Claude/claude_desktop_config.json", ["mcpServers"], plain),
        "zed": (".config/zed/settings.json", ["context_servers"], {**plain, "env": {}}),
        "windsurf": (".codeium/windsurf/mcp_config.json", ["mcpServers"], plain),
        "cline": (CLINE, ["mcpServers"], {**plain, "disabled": False}),
        "roo": ("app/.roo/mcp.json", ["mcpServers"], {**plain, "disabled": False}),
        "kimi": (".kimi-code/mcp.json", ["mcpServers"], plain),
        "crush": (".config/crush/crush.json", ["mcp"], stdio),
    }
    assert set(wanted) == set(EDITED)
    for client, (name, keys, entry) in wanted.items():
        ask(client, root)
        assert entry_of(home / name) == (keys, entry), client


def test_the_newer_layout_of_opencode_is_kept_where_it_is_used(home: Path) -> None:
    (home / "opencode.json").write_text(OPENCODE_2, encoding="utf-8")
    ask("opencode", "--scope", "project")
    keys, entry = entry_of(home / "opencode.json")
    assert keys == ["mcp", "servers"] and "enabled" not in entry


def test_editors_fill_in_the_project_if_none_is_given(home: Path) -> None:
    ask("cursor")
    assert entry_of(home / ".cursor/mcp.json")[1]["args"][-3] == "${workspaceFolder}"


@pytest.mark.parametrize(
    ("client", "name", "text", "why"),
    [
        ("claude", ".claude.json", '{\n "a": 1\n "b": 2\n}', "line 3: Expecting ',' delimiter"),
        ("claude", ".claude.json", "[1]", "it is not an object"),
        ("claude", ".claude.json", '{"mcpServers": []}', "mcpServers is not an object"),
        ("claude", ".claude.json", '{"a": "\x00\xff', "Invalid control character"),
        ("claude", ".claude.json", "{} {}", "Extra data"),
        ("claude", ".claude.json", '{"a": 01}', "Expecting ',' delimiter"),
        ("claude", ".claude.json", '{"a": \u0663}', "Expecting value"),
        ("claude", ".claude.json", "[" * 100_000, "Nested too deeply"),
        ("codex", ".codex/config.toml", "model = \n", "Invalid value"),
        ("codex", ".codex/config.toml", "mcp_servers = {}\n", "edit the file yourself"),
        ("codex", ".codex/config.toml", "mcp_servers = 3\n", "not a table"),
        ("gemini", ".gemini/settings.json", '{"mcpServers": {"handrail": {"command": "other"}}}', "something else"),
    ],
)
def test_a_file_that_cannot_be_understood_is_refused_and_left_alone(
    home: Path, client: str, name: str, text: str, why: str
) -> None:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InstallError, match=why.replace("}", r"\}")) as failure:
        ask(client)
    assert name.split("/")[-1] in str(failure.value)
    assert path.read_text(encoding="utf-8") == text
    assert sorted(path.parent.glob(".handrail-*")) == []


@pytest.mark.parametrize("memory", ["", "[1]", "null", "[" * 100_000])
def test_a_memory_that_is_lost_does_not_stop_it(home: Path, memory: str) -> None:
    (home / ".claude.json").write_text("{}", encoding="utf-8")
    (Path(os.environ["HANDRAIL_STATE"]) / "mcp-installs.json").write_text(memory, encoding="utf-8")
    ask("claude")
    assert "handrail" in json.loads((home / ".claude.json").read_text(encoding="utf-8"))["mcpServers"]
    ask("claude", "--undo")
    assert json.loads((home / ".claude.json").read_text(encoding="utf-8")) == {}


def test_bytes_that_are_no_text_are_refused(home: Path) -> None:
    (home / ".claude.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(InstallError, match="not UTF-8"):
        ask("claude")


def test_an_older_entry_that_another_version_wrote_is_replaced_and_comes_back(home: Path) -> None:
    old = '{"mcpServers": {"handrail": {"command": "/old/bin/handrail", "args": ["mcp"]}, "b": {}}}'
    path = home / ".claude.json"
    path.write_text(old, encoding="utf-8")
    ask("claude")
    assert "/old/bin" not in path.read_text(encoding="utf-8")
    ask("claude", "--undo")
    assert path.read_text(encoding="utf-8") == old
    ask("claude", "--undo")
    assert json.loads(path.read_text(encoding="utf-8")) == {"mcpServers": {"b": {}}}


def test_an_older_table_in_the_middle_of_toml_is_replaced_where_it_stands(home: Path) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    old = '[mcp_servers.handrail]\ncommand = "/old/handrail"\nargs = ["mcp"]\n[mcp_servers.handrail.env]\nA = "1"\n'
    rest = '\n# about the model\n[model]\nname = "x"\n'
    path.write_text("a = 1\n\n" + old + rest, encoding="utf-8")
    ask("codex")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("a = 1\n\n[mcp_servers.handrail]\n") and text.endswith(rest) and "/old" not in text
    ask("codex", "--undo")
    assert path.read_text(encoding="utf-8") == "a = 1\n\n" + old + rest


def test_a_link_to_the_file_stays_a_link_and_the_mode_stays(home: Path) -> None:
    (home / "dotfiles").mkdir()
    real = home / "dotfiles" / "claude.json"
    real.write_text("{}\n", encoding="utf-8")
    real.chmod(0o600)
    (home / ".claude.json").symlink_to(real)
    ask("claude")
    assert (home / ".claude.json").is_symlink() and "handrail" in real.read_text(encoding="utf-8")
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    ask("claude", "--undo")
    assert real.read_text(encoding="utf-8") == "{}\n"


def test_print_shows_the_entry_and_changes_nothing(home: Path) -> None:
    before = sorted(home.rglob("*"))
    for client in EDITED:
        report = ask(client, "--print", "--dialect", "codex")
        file = "a.toml" if client == "codex" else "a.json"
        data = read_data(file, report.out)
        assert "handrail" in json.dumps(data) and str(home) in report.aside
    assert sorted(home.rglob("*")) == before


def test_the_variables_that_move_a_configuration_are_heeded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(home / "elsewhere"))
    ask("codex")
    assert (home / "elsewhere" / "config.toml").exists() and not (home / ".codex").exists()


def test_what_is_remembered_holds_nothing_of_the_file(home: Path) -> None:
    path = home / ".claude.json"
    path.write_text('{"oauthAccount": "hush-hush"}', encoding="utf-8")
    ask("claude")
    state = Path(os.environ["HANDRAIL_STATE"])
    kept = [one.read_bytes() for one in state.rglob("*") if one.is_file()]
    assert any(b"mcpServers" in one for one in kept) and not any(b"hush" in one for one in kept)


def test_the_command_that_is_written_starts_the_server_though_the_project_holds_a_trap(home: Path) -> None:
    trap = home / "handrail"
    trap.mkdir()
    (trap / "__init__.py").write_text("raise SystemExit('trapped')\n", encoding="utf-8")
    (trap / "__main__.py").write_text("raise SystemExit('trapped')\n", encoding="utf-8")
    ask("codex")
    entry = entry_of(home / ".codex/config.toml")[1]
    program = [entry["command"], *entry["args"]]
    done = subprocess.run(
        [*program[: program.index("mcp")], "--version"], cwd=home, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout.startswith("handrail "), done.stderr


def test_the_command_line_does_it_and_says_what_it_did(home: Path) -> None:
    def typed(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "handrail", "mcp", "install", *words]
        return subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)

    done = typed("claude", "--mode", "ask")
    assert done.returncode == 0 and ".claude.json" in done.stdout, done.stderr
    assert json.loads((home / ".claude.json").read_text())["mcpServers"]["handrail"]["args"][-4:-2] == ["--mode", "ask"]
    assert typed("claude", "--undo").returncode == 0 and not (home / ".claude.json").exists()
    shown = typed("codex", "--print")
    assert tomllib.loads(shown.stdout) and "config.toml" in shown.stderr
    wrong = typed("emacs")
    assert wrong.returncode == 2 and "claude" in wrong.stderr and wrong.stderr.count("\n") == 1
    assert typed("claude", "--undo", "--print").returncode == 2
    (home / ".claude.json").write_text("{", encoding="utf-8")
    broken = typed("claude")
    assert broken.returncode == 1 and "was not changed" in broken.stderr
    assert typed("--help").returncode == 0


DOCS = Path(__file__).parents[2] / "docs" / "mcp.md"


def test_the_commands_of_the_docs_run(home: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    commands = [line[2:] for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("$ ")]
    assert len(commands) >= 3
    for line in commands:
        done = subprocess.run(
            ["bash", "-c", line], cwd=home, env={**os.environ, "PATH": path}, capture_output=True, check=False
        )
        assert done.returncode == 0, (line, done.stderr)


def test_the_table_of_the_docs_is_what_is_done(home: Path) -> None:
    text = DOCS.read_text(encoding="utf-8")
    for name, client in load_clients().items():
        project = f"`{client.project[0]}`" if client.project else "-"
        assert f"| `{name}` | `{client.user[0]}` | {project} |" in text


def test_a_comment_above_the_next_table_stays_when_an_entry_of_a_toml_file_is_removed() -> None:
    rest = "# about b\n[b]\nk = 1\n"
    text = '[mcp_servers.handrail]\ncommand = "x"\n\n' + rest
    left = remove_value(text, ["mcp_servers", "handrail"])
    assert left.lstrip("\n") == rest


# --only, --allow and --http.


CLAUDE_SETTINGS = '{\n  // mine\n  "permissions": {\n    "deny": ["WebFetch"], // not that\n    "allow": []\n  }\n}\n'
MORE = [
    ("claude", ".claude/settings.json", CLAUDE_SETTINGS),
    ("claude", ".claude/settings.json", ""),
    ("codex", ".codex/config.toml", CODEX),
    ("codex", ".codex/config.toml", "[features]\nmulti_agent = true # yes\n\n[tui]\nx = 1\n"),
    ("codex", ".codex/config.toml", "[features]\nshell_tool = true\n"),
    ("gemini", ".gemini/settings.json", '{\n\t"tools": {\n\t\t"exclude": [\n\t\t\t"web_fetch",\n\t\t],\n\t},\n}\n'),
    ("qwen", ".qwen/settings.json", '{"tools": {"sandbox": false}}'),
    ("opencode", ".config/opencode/opencode.jsonc", OPENCODE),
    ("opencode", ".config/opencode/opencode.json", '{"tools": {"bash": true, "webfetch": false}}'),
    ("cline", ".cline/data/settings/cline_mcp_settings.json", "{}"),
    ("roo", ".roo/mcp.json", "{}"),
    ("crush", ".config/crush/crush.json", '{\n  "options": {\n    "disabled_tools": []\n  }\n}\n'),
]
OFF: dict[str, tuple[list[str], Any]] = {
    "claude": (["permissions", "deny"], ["Bash", "Read", "Edit", "Write", "Glob", "Grep"]),
    "codex": (["features", "shell_tool"], False),
    "gemini": (["tools", "exclude"], ["run_shell_command", "read_file", "write_file", "replace"]),
    "qwen": (["tools", "exclude"], ["run_shell_command", "read_file", "write_file", "edit"]),
    "opencode": (["tools", "bash"], False),
    "crush": (["options", "disabled_tools"], ["bash", "edit", "write"]),
}
ALLOWED: dict[str, tuple[list[str], Any]] = {
    "claude": (["permissions", "allow"], ["mcp__handrail"]),
    "codex": (["mcp_servers", "handrail", "default_tools_approval_mode"], "approve"),
    "gemini": (["mcpServers", "handrail", "trust"], True),
    "qwen": (["mcpServers", "handrail", "trust"], True),
    "cline": (["mcpServers", "handrail", "autoApprove"], ["Read", "Bash"]),
    "roo": (["mcpServers", "handrail", "alwaysAllow"], ["Read", "Bash"]),
    "crush": (["permissions", "allowed_tools"], ["mcp_handrail_Read", "mcp_handrail_Bash"]),
}


def is_set(path: Path, keys: list[str], value: Any) -> bool:
    there = get_value(read_data(str(path), path.read_text(encoding="utf-8")), keys)
    return set(value) <= set(there or ()) if isinstance(value, list) else there == value


@pytest.mark.parametrize(("client", "name", "text"), MORE)
def test_only_and_allow_are_set_said_and_taken_back_byte_for_byte(
    home: Path, client: str, name: str, text: str
) -> None:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))
    report = ask(client, "--only", "--allow").out
    for wanted in (OFF, ALLOWED):
        if client in wanted:
            keys, value = wanted[client]
            assert is_set(path, keys, value), path.read_text(encoding="utf-8")
            assert keys[-1] in report
    once = path.read_bytes()
    assert "already" in ask(client, "--only", "--allow").out and path.read_bytes() == once
    ask(client)  # without them: the entry alone
    if client in OFF:
        assert not is_set(path, *OFF[client])
    assert ask(client, "--only", "--allow") and path.read_bytes() == once
    ask(client, "--undo")
    assert path.read_bytes() == text.encode("utf-8")


@pytest.mark.parametrize(("client", "name", "text"), [one for one in MORE if one[0] in OFF])
def test_settings_of_a_file_that_was_rewritten_are_taken_back_where_they_are(
    home: Path, client: str, name: str, text: str
) -> None:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))
    ask(client, "--only", "--allow")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n")
    ask(client, "--undo")
    left = path.read_text(encoding="utf-8")
    assert "handrail" not in left and read_data(name, left) == read_data(name, text)


def test_a_file_of_settings_that_was_made_for_it_is_gone_afterwards(home: Path) -> None:
    before = sorted(home.rglob("*"))
    assert ".claude/settings.json" in ask("claude", "--only", "--allow").out
    assert "removed" in ask("claude", "--undo").out
    assert sorted(home.rglob("*")) == before


CLAUDE_CODE_TOOLS = {
    "Agent",
    "Bash",
    "Edit",
    "Glob",
    "Grep",
    "LSP",
    "Monitor",
    "NotebookEdit",
    "PowerShell",
    "Read",
    "Skill",
    "TodoWrite",
    "WebFetch",
    "WebSearch",
    "Write",
}
"""Of its own documentation; a rule about any other name is reported as a typing error at every start."""


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("text", ["", "{}", CLAUDE_SETTINGS, '{"permissions": {"deny": ["Bash", "Read"]}}'])
@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize("before", [[], ["LS"], ["MultiEdit", "LS"]])
def test_claude_code_gets_rules_about_its_own_tools_alone(
    home: Path, scope: str, text: str, rewritten: bool, before: list[str]
) -> None:
    """Also if an older version denied tools that are gone since; a person's own rules stay."""
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    mine = get_value(read_data(str(path), text), ["permissions", "deny"]) or []
    if before:
        clients = load_clients()
        deny = {"keys": ["permissions", "deny"], "add": [*clients["claude"].only[0]["add"], *before]}
        older = {**clients, "claude": replace(clients["claude"], only=[deny])}
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(command, "load_clients", lambda: older)
            ask("claude", "--only", "--scope", scope)
        if rewritten:
            path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    ask("claude", "--only", "--scope", scope)
    denied = get_value(read_data(str(path), path.read_text(encoding="utf-8")), ["permissions", "deny"])
    assert {"Bash", "Read", "Edit", "Write", *mine} <= {*denied} <= CLAUDE_CODE_TOOLS
    assert len(denied) == len({*denied})
    ask("claude", "--undo", "--scope", scope)
    left = path.read_text(encoding="utf-8")
    assert (get_value(read_data(str(path), left), ["permissions", "deny"]) or []) == mine


def test_a_list_that_is_none_is_left_alone(home: Path) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text('{"permissions": {"deny": "all"}}', encoding="utf-8")
    with pytest.raises(InstallError, match=r"settings\.json was not changed: permissions\.deny is not a list"):
        ask("claude", "--only")
    assert not (home / ".claude.json").exists()
    assert path.read_text(encoding="utf-8") == '{"permissions": {"deny": "all"}}'


def test_what_a_client_has_no_setting_for_is_said(home: Path) -> None:
    assert "No setting of Cursor is known that turns its own tools off" in ask("cursor", "--only").out
    assert "--only turns them off; `handrail attach` gives them undo." in ask("claude").out
    assert "--only turns them off." in ask("crush").out and "--allow" in ask("claude").out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["claude", "--allow", "--mode", "full"], "no question at all"),
        (["windsurf", "--scope", "project"], "no configuration for one project"),
        (["claude-desktop", "--http", "http://127.0.0.1:8765/mcp"], "starts its servers itself"),
        (["goose", "--http", "http://127.0.0.1:8765/mcp", "--token-file", "missing"], "no token in missing"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_changed(home: Path, words: list[str], why: str) -> None:
    before = sorted(home.rglob("*"))
    with pytest.raises(InstallError, match=why):
        command.run(command.parser().parse_intermixed_args(words))
    assert sorted(home.rglob("*")) == before


def test_a_client_that_starts_servers_nowhere_needs_the_project(home: Path) -> None:
    with pytest.raises(InstallError, match="give ROOT"):
        command.run(command.parser().parse_intermixed_args(["claude-desktop"]))


@pytest.mark.parametrize("client", [name for name, kind in EDITED.items() if kind.http])
def test_the_http_server_is_entered_with_its_token_and_taken_out(home: Path, client: str) -> None:
    token, url = "t0ken-for-tests-0123456789", "http://127.0.0.1:8765/mcp"
    (home / "token").write_text(token + "\n", encoding="ascii")
    before = sorted(home.rglob("*"))
    ask(client, "--http", url, "--token-file", "token")
    (path,) = [one for one in home.rglob("*") if one.is_file() and one.name != "token" and one not in before]
    _, entry = entry_of(path)
    assert url in entry.values() and token in json.dumps(entry) and "command" not in entry
    ask(client, "--http", url, "--token-file", "token")
    ask(client)  # now it is started by the client
    assert token not in path.read_text(encoding="utf-8")
    ask(client, "--http", url, "--token-file", "token")
    ask(client, "--undo")
    assert sorted(home.rglob("*")) == before


@pytest.mark.parametrize("words", [[], ["--print"], ["--only"], ["--undo"]])
def test_a_yaml_file_is_left_to_the_person(home: Path, words: list[str]) -> None:
    path = home / ".config/goose/config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("extensions:\n  developer:\n    enabled: true\n", encoding="utf-8")
    report = ask("goose", *words)
    assert path.read_text(encoding="utf-8") == "extensions:\n  developer:\n    enabled: true\n"
    assert str(path) in report.aside
    entry = report.out.splitlines()[1:2]
    assert entry == [] if words == ["--undo"] else entry[0].startswith('  handrail: {"enabled": true, "type": "stdio"')
    off = report.out.splitlines()[2:]
    assert off == (["  developer:", "    enabled: false"] if words == ["--only"] else [])
