"""The program that agents start for hooks and commands: a short shell script, which works without Handrail too."""

from __future__ import annotations

import os
import shlex
import sys

from handrail.attach.client import handrail_run

_SCRIPT = """\
#!/bin/sh
# Written by `handrail attach`. Starts Handrail's client for a hook or a command of an attached agent.
# If Handrail is gone, commands run as if it had never been there.
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
handrail_run.main(sys.argv.pop(1), [sys.executable, "-P", "-m", "handrail", "service"])' "$client" {state} "$@"
fi
if [ "$1" = prefix ]; then
    case ${{SHELL-}} in */bash | */zsh) exec "$SHELL" -c "$2" ;; *) exec bash -c "$2" ;; esac
fi
"""


def get_path(state: str) -> str:
    """Where the launcher of this user is."""
    return os.path.join(state, "attach", "handrail-run")


def write(state: str) -> str:
    """Write the launcher for this installation; returns its path."""
    path = get_path(state)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    facts = {"python": sys.executable, "client": os.path.dirname(handrail_run.__file__), "state": state}
    script = _SCRIPT.format(**{name: shlex.quote(value) for name, value in facts.items()})
    with open(os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700), "w", encoding="utf-8") as file:
        file.write(script)
    os.replace(f"{path}.new", path)
    return path
