"""The programs that agents start for hooks and commands: short shell scripts, which work without Handrail too."""

from __future__ import annotations

import os
import shlex
import sys

from handrail.attach.client import handrail_run

_SCRIPT = """\
#!/bin/sh
# Written by `handrail attach`. Starts Handrail's client for a hook or a command of an attached agent.
# If Handrail is gone, commands run as if it had never been there, unless it is required.
if [ $# -eq 1 ]; then
    case $1 in
        "$0 hook "*) set -- hook "${{1##* }}" ;;
        *" && pwd -P >| "*) set -- prefix "$1" ;;
        *) exec /bin/sh -c "$1" ;;
    esac
fi
python={python}
client={client}
if [ -x "$python" ] && [ -f "$client/handrail_run.py" ]; then
    exec "$python" -I -S -c 'import sys; sys.path.insert(0, sys.argv.pop(1)); import handrail_run
handrail_run.main(sys.argv.pop(1), sys.argv.pop(1), [sys.executable, "-P", "-m", "handrail", "service"])' \\
        "$client" {state} {required} "$@"
fi
if [ -n {required} ]; then
    [ "$1" != hook ] || grep -q '"PreToolUse"' || exit 0
    echo "handrail: it is not installed any more" >&2
    exit 2
fi
if [ "$1" = run ]; then
    exec bash -c "$2"
elif [ "$1" = prefix ]; then
    case ${{SHELL-}} in */bash | */zsh) exec "$SHELL" -c "$2" ;; *) exec bash -c "$2" ;; esac
fi
"""
_BASH_ENV = """\
# Written by `handrail attach`. Bash reads this before it runs a command of an attached agent, after the agent has
# decided about it. A command that its hook has registered goes to Handrail; all others run as they are.
if [[ -n ${{BASH_EXECUTION_STRING-}} && -x {launcher} ]]; then
    for _handrail in {state}/attach/${{HANDRAIL_DRAFT-}}/calls/*/command; do
        if [[ -r $_handrail ]] && IFS= read -r -d '' _handrail < "$_handrail" &&
            [[ $_handrail == "$BASH_EXECUTION_STRING" ]]; then
            unset BASH_ENV
            exec {launcher} run "$BASH_EXECUTION_STRING"
        fi
    done
    unset _handrail
fi
"""


def get_path(state: str) -> str:
    """Where the launcher of this user is."""
    return os.path.join(state, "attach", "handrail-run")


def get_bash_path(state: str) -> str:
    """Where the file is that bash reads before a command."""
    return os.path.join(state, "attach", "bash-env")


def get_plugin_path(state: str) -> str:
    """Where opencode's plugin is: beside the other two, which it starts."""
    return os.path.join(state, "attach", "opencode.js")


def write(state: str, *, required: bool = False) -> str:
    """Write the launcher for this installation, what bash reads, and a plugin; returns the path of the launcher."""
    path = get_path(state)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    client = os.path.dirname(handrail_run.__file__)
    facts = {"python": sys.executable, "client": client, "state": state, "launcher": path}
    facts["required"] = "required" if required else ""
    quoted = {name: shlex.quote(value) for name, value in facts.items()}
    with open(os.path.join(client, "opencode.js"), encoding="utf-8") as plugin:
        texts = {
            path: _SCRIPT.format(**quoted),
            get_bash_path(state): _BASH_ENV.format(**quoted),
            get_plugin_path(state): plugin.read(),
        }
    for target, text in texts.items():
        number = os.open(f"{target}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700)
        with open(number, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f"{target}.new", target)
    return path
