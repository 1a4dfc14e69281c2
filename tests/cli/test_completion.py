"""Shell completion: each shell that is installed reads its script and completes commands, options and values."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from handrail.cli import COMMANDS
from handrail.cli.common import list_dialects
from handrail.cli.completion import SHELLS, describe_commands, write_bash, write_fish, write_zsh
from handrail.policy.modes import MODES
from tests.command import TIMEOUT, handrail

WRITERS = {"bash": write_bash, "zsh": write_zsh, "fish": write_fish}


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    commands = describe_commands()
    return {shell: WRITERS[shell](commands) for shell in SHELLS}


def test_the_command_prints_the_script(scripts: dict[str, str], tmp_path: Path) -> None:
    assert handrail("completion", "bash", cwd=tmp_path).stdout.decode("utf-8") == scripts["bash"]
    assert handrail("completion", "csh", cwd=tmp_path).returncode == 2


def test_every_command_and_every_option_is_in_every_script(scripts: dict[str, str]) -> None:
    commands = describe_commands()
    assert [command.name for command in commands] == [name for name in COMMANDS if " " not in name]
    for shell, text in scripts.items():
        for command in commands:
            assert command.name in text
            for option in command.options:
                for name in option.names:
                    assert (name.lstrip("-") if shell == "fish" else name) in text


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_reads_its_script(scripts: dict[str, str], shell: str, tmp_path: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "script"
    file.write_text(scripts[shell], encoding="utf-8")
    ended = subprocess.run([shell, "-n", str(file)], capture_output=True, timeout=TIMEOUT, check=False)
    assert ended.returncode == 0 and ended.stderr == b""


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["handrail", "ch"], ["chat"]),
        (["handrail", "chat", "--mode", ""], list(MODES)),
        (["handrail", "run", "--cont"], ["--continue"]),
        (["handrail", "chat", "--dialect", "cl"], ["claude"]),
        (["handrail", "log", "s"], ["show", "stats"]),
        (["handrail", "draft", "k"], ["keep"]),
    ],
)
def test_bash_completes(scripts: dict[str, str], words: list[str], expected: list[str]) -> None:
    line = " ".join(f"'{word}'" for word in words)
    call = f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _handrail; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    command = ["bash", "--norc", "-c", f"{scripts['bash']}\n{call}"]
    ended = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=TIMEOUT, check=True)
    assert ended.stdout.split() == expected


def test_help_lists_the_values_of_mode_and_dialect(tmp_path: Path) -> None:
    for command in ("chat", "run"):
        text = "".join(handrail(command, "--help", cwd=tmp_path).stdout.decode("utf-8").split())
        assert ",".join(MODES) in text and ",".join(list_dialects()) in text
