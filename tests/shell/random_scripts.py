"""Random bash scripts, and a comparison with bash: no command runs that the parser did not list.

Programs are stand-ins that record their arguments and do nothing else; the only real programs on the PATH are wrappers
that run other commands. Two of the stand-ins, `hidden` and `output`, stand in no command position of a script: they run
only if bash evaluates a value or the output of a program as code. From the command line:

    python -m tests.shell.random_scripts --first 0 --count 100000
"""

from __future__ import annotations

import argparse
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from handrail.shell.parser.parse import parse_script
from handrail.shell.parser.script import Command, Script

SUCCEED = ("p0", "p1", "p2", "p3")
FAIL = ("q0", "q1")
SECRET = ("hidden", "output")
WRAPPERS = ("bash", "sh", "env", "timeout", "nice", "nohup", "xargs", "find", "stdbuf")
_UNIT, _RECORD = "\x1f", "\x1e"
_STAND_IN = f"""#!/bin/sh
all=${{0##*/}}
for word do all="$all{_UNIT}$word"; done
printf '%s{_RECORD}' "$all" >&9
printf '%s\\n' 'output' 'a[$(hidden)]'
case $all in q*) exit 1;; esac
"""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SECONDS = 10
_INJECTION = "a[$(hidden)]"
_NOISE = "'\"\\$`(){}<>|&;\n #!=[]*~?:-+%"
_PLACEHOLDER = re.compile(r"NAME|VALUE|WORD|PROGRAM|TEXT|COMMAND|NUMBER")
_PLAIN_PIECES = _words(r"""
w v1 -x 'a_b' "a_b" \_ '' "" $'\x41\n' $'it\'s' $"t" {b,c} {1..3} {d,'e_f'} * f? [ab] ~ a=b # = : %
'$(hidden)' \$\(hidden\) '`hidden`' "\$(hidden)" \`hidden\` {p0,}
""")
_EXPANSIONS = _words("""
$NAME ${NAME} ${#NAME} ${NAME:-WORD} ${NAME+WORD} ${NAME#WORD} ${NAME%%WORD} ${NAME/WORD/WORD} ${NAME^^} ${NAME@Q}
${NAME:1:2} ${!NAME@} $? $# ${NAME[0]} ${NAME[@]} ${#NAME[@]} $@ "$@" ${NAME:NUMBER}
""")
_WILD_EXPANSIONS = _words("""
${NAME:=WORD} ${!NAME} ${NAME[NUMBER]} ${NAME:NUMBER:NUMBER} ${!NAME[@]} ${NAME@P} ${NAME:=NUMBER} ${NAME@A}
""")
_BUILTINS = r"""
echo WORD
printf '%s\n' WORD
printf -v NAME '%s' VALUE
cd .
: $x ${y:-WORD}
read -r NAME <<< VALUE
test VALUE = w
[ VALUE -eq 1 ]
let NAME=1
export NAME=VALUE
set -e
set -- a b
shift
true
false
wait
pwd
mapfile -t NAME <<< VALUE
set -f
umask 022
type p0
declare NAME=VALUE
exit
""".strip().splitlines()
_WILD_BUILTINS = r"""
test -v VALUE
let VALUE
declare -i NAME=VALUE
unset VALUE
declare -a NAME=VALUE
declare -n NAME=x
shopt -s extglob
alias p0=q0
wait $x
declare NAME+=VALUE
readonly r=VALUE
enable -n test
hash -r
getopts ab x -a
local NAME
readarray NAME < <(PROGRAM)
read 'a[$(hidden)]' <<< w
printf '%d' VALUE
NAME[NUMBER]=WORD
""".strip().splitlines()
_WRAPPERS = r"""
bash -c TEXT
bash -ec TEXT a b
sh -c TEXT
eval TEXT
bash <<< TEXT
env A=1 COMMAND
env -u x COMMAND
timeout 5 COMMAND
nice -n 1 COMMAND
command COMMAND
( exec COMMAND )
nohup COMMAND >/dev/null
builtin eval TEXT
stdbuf -o0 COMMAND
PROGRAM | xargs COMMAND
PROGRAM | xargs -n 1 -I% COMMAND
find . -maxdepth 0 -exec COMMAND \;
find . -maxdepth 1 -exec COMMAND {} +
trap TEXT EXIT
env bash -c TEXT
""".strip().splitlines()
_WILD_WRAPPERS = r"""
eval WORD
exec COMMAND
PROGRAM | bash
$x COMMAND
source /dev/stdin <<< TEXT
env WORD COMMAND
xargs -a f1 COMMAND
bash WORD
bash -c "PROGRAM $x"
eval "$x" TEXT
find . WORD -exec COMMAND \;
""".strip().splitlines()


class Generator:
    """Writes one random script."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.budget = self.random.choice((6, 12, 25, 40))
        self.wild = self.chance(0.3)
        """Whether constructs are likely in it that the parser does not prove."""
        self.here = 0

    def script(self) -> str:
        """A whole script; one of four has a few characters changed."""
        text = self.list_(0)
        if self.chance(0.5):
            text = self.random.choice(("n=1; x=2; y=w\n", "x=07 n=-3\n", f"x='{_INJECTION}'; n=0; ")) + text
        for _ in range(self.random.choice((0, 0, 0, 0, 0, 0, 1, 2))):
            text = self._mutated(text)
        return text

    def _mutated(self, text: str) -> str:
        at = self.random.randrange(len(text) + 1)
        kind = self.random.randrange(4)
        if kind == 0:
            return text[:at] + self.random.choice(_NOISE) + text[at:]
        if kind == 1:
            return text[:at] + text[at + 1 :]
        if kind == 2:
            return text[:at] + self.random.choice(_NOISE) + text[at + 1 :]
        return text[:at] + "\\\n" + text[at:]

    def fill(self, templates: Sequence[str], depth: int) -> str:
        """One of the templates with its placeholders filled in."""
        ways: dict[str, Callable[[], str]] = {
            "NAME": self.variable,
            "VALUE": lambda: self.random.choice(("1", "w", "$x", '"$y"', f"'{_INJECTION}'", f'"$({self.name()})"')),
            "WORD": lambda: self.word(depth + 1),
            "PROGRAM": self.name,
            "TEXT": lambda: self.nested(depth),
            "COMMAND": lambda: self.plain(depth),
            "NUMBER": lambda: self.arithmetic(depth + 2),
        }
        return _PLACEHOLDER.sub(lambda match: ways[match.group()](), self.random.choice(templates))

    def pick(self, *choices: Callable[[int], str], depth: int) -> str:
        return self.random.choice(choices)(depth)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def name(self) -> str:
        return self.random.choice((*SUCCEED, *FAIL))

    def variable(self) -> str:
        return self.random.choice(("x", "y", "z", "a", "n"))

    # -- lists and pipelines

    def list_(self, depth: int) -> str:
        """Commands with operators and line breaks between them."""
        out = self.statement(depth)
        while self.budget > 0 and self.chance(0.5):
            joint = self.random.choice(("; ", " ;", "\n", "\n\n", " & ", "\n# a comment 'with quotes\n", " # (\n"))
            out += ("" if out.endswith("\n") else joint) + self.statement(depth)
        return out if out.endswith("\n") else out + self.random.choice(("", "", ";", "\n"))

    def statement(self, depth: int) -> str:
        """A list of commands; one of ten has a here-document, and its body behind it."""
        if depth > 3 or self.chance(0.9):
            return self.and_or(depth)
        operator, body = self.here_document(depth)
        after = self.random.choice(("", "", f" | {self.name()}", f" && {self.name()} w", " 2>&1", " &", ";"))
        return f"{self.plain(4)} {operator}{after}\n{body}"

    def block(self, depth: int) -> str:
        """A list that ends so that a keyword can follow."""
        text = self.list_(depth + 1)
        return text if text.endswith("\n") else text.rstrip("; ") + self.random.choice(("; ", "\n"))

    def and_or(self, depth: int) -> str:
        out = self.pipeline(depth)
        while self.budget > 0 and self.chance(0.25):
            out += self.random.choice((" && ", " || ", "&&", "||")) + self.pipeline(depth)
        return out

    def pipeline(self, depth: int) -> str:
        out = self.random.choice(("", "", "", "", "! ", "time ")) + self.command(depth)
        while self.budget > 0 and self.chance(0.2):
            out += self.random.choice((" | ", "|", " |& ")) + self.command(depth)
        return out

    def command(self, depth: int) -> str:
        self.budget -= 1
        if depth > 4 or self.budget <= 0 or self.chance(0.55):
            return self.simple(depth)
        return self.pick(self.compound, self.compound, self.wrapper, self.builtin, depth=depth)

    # -- simple commands

    def simple(self, depth: int) -> str:
        pieces = [self.assignment(depth) for _ in range(self.random.choice((0, 0, 0, 0, 1, 2)))]
        if not pieces or self.chance(0.8):
            pieces.append(self.spelled(self.name()))
            pieces += [self.word(depth) for _ in range(self.random.choice((0, 1, 1, 2, 3)))]
        for _ in range(self.random.choice((0, 0, 0, 0, 1, 1, 2))):
            pieces.insert(self.random.randrange(len(pieces) + 1), self.redirection(depth))
        return self.random.choice((" ", " ", " ", "  ", "\t", " \\\n")).join(pieces)

    def plain(self, depth: int) -> str:
        """A program with a few words, as it stands behind a wrapper."""
        return " ".join([self.spelled(self.name()), *(self.word(depth + 1) for _ in range(self.random.randrange(3)))])

    def spelled(self, text: str) -> str:
        """A name, sometimes written with quotes or over two lines."""
        if self.chance(0.8):
            return text
        at = self.random.randrange(len(text))
        ways = (
            f"'{text}'",
            f'"{text}"',
            f"{text[:at]}\\{text[at:]}",
            f"{text[:at]}''{text[at:]}",
            f"{text[:at]}\\\n{text[at:]}",
            f"$'{text}'",
            f'$"{text}"',
            f"{{{text},w}}",
        )
        return self.random.choice(ways)

    def assignment(self, depth: int) -> str:
        name = self.variable()
        ways = (
            lambda: f"{name}={self.word(depth)}",
            lambda: f"{name}={self.random.choice(('1', '-7', '', '08', self.variable()))}",
            lambda: f"{name}+={self.word(depth)}",
            lambda: f"{name}=({self.word(depth)} {self.word(depth)})",
            lambda: f"{name}[{self.random.randrange(3)}]={self.word(depth)}",
            lambda: f"{name}='{_INJECTION}'",
        )
        return self.random.choice(ways)()

    def redirection(self, depth: int) -> str:
        kind = self.random.randrange(8)
        if kind < 3:
            operator = self.random.choice((">", ">>", "2>", "<", "&>", ">|", "<>", "{fd}>"))
            return operator + self.random.choice(("", " ")) + self.random.choice(("f1", "f2", "/dev/null", '"f 3"'))
        if kind == 3:
            return self.random.choice(("2>&1", ">&2", "<&0", "3<&-", "2>&-"))
        if kind == 4:
            return "<<<" + self.random.choice(("", " ")) + self.word(depth)
        if kind == 5 and depth < 4:
            return self.random.choice(("< <", "> >")) + f"({self.list_(depth + 1)})"
        return "2>/dev/null"

    def here_document(self, depth: int) -> tuple[str, str]:
        """The operator with its delimiter, and the body."""
        self.here += 1
        end = f"E{self.here}"
        quoted = self.chance(0.4)
        rows = [self.random.choice(("text", "", "it's", '"', f"x{end} ", " " + end, "\\$(hidden)"))]
        if quoted:
            rows += ["$(hidden)", "`hidden`", "${x:-$(hidden)}"]
        elif depth < 4:
            more = [f"$({self.name()} h)", '${x:-"$(' + self.name() + ' d)"}', "$x \\", "$((1+1))", f"`{self.name()}`"]
            rows += more[: self.random.randrange(6)]
        dash = self.chance(0.2)
        tab = "\t" if dash else ""
        body = "".join(f"{tab}{row}\n" for row in rows) + f"{tab}{end}\n"
        delimiter = self.random.choice((f"'{end}'", f'"{end}"', f"\\{end}")) if quoted else end
        return ("<<-" if dash else "<<") + delimiter, body

    # -- words

    def word(self, depth: int) -> str:
        return "".join(self.piece(depth) for _ in range(self.random.choice((1, 1, 1, 1, 2, 3))))

    def piece(self, depth: int) -> str:
        if depth > 4 or self.chance(0.45):
            return self.random.choice(_PLAIN_PIECES).replace("_", " ")
        ways = (
            self.expansion,
            self.expansion,
            lambda depth: f"$({self.list_(depth + 1)})",
            lambda depth: f'"$({self.list_(depth + 1)})"',
            lambda depth: f"`{self.name()} {self.random.choice(('b', chr(39) + 'b c' + chr(39), '$x'))}`",
            lambda _: f'"`{self.name()} b`"',
            lambda depth: f"$(({self.arithmetic(depth)}))",
            lambda depth: f"$[{self.arithmetic(depth)}]",
            lambda depth: f"<({self.list_(depth + 1)})",
            lambda depth: f'"{self.quoted(depth)}"',
        )
        return self.pick(*ways, depth=depth)

    def quoted(self, depth: int) -> str:
        """Text for between double quotes."""
        pieces = ("a b", "'", '\\"', "\\$", "\\`", "(", ")", ";", "$x", "${y}", "#", "\\\\", "|", "!")
        out = "".join(self.random.choice(pieces) for _ in range(self.random.randrange(4)))
        return out + (self.expansion(depth) if self.chance(0.4) else "")

    def expansion(self, depth: int) -> str:
        return self.fill((*_EXPANSIONS, *(_WILD_EXPANSIONS if self.wild else ())), depth)

    def arithmetic(self, depth: int) -> str:
        atoms = ["1", "0", "2", "n", "$n", "${#x}", "RANDOM", "n++", "n=1", "(1)", "7", "$?"]
        if self.wild:
            atoms += ["x", "$x", "x+=2", "2#10", "0x1f", "-2"]
            if depth < 4 and self.chance(0.2):
                atoms.append(f"$({self.name()} i)")
        out = self.random.choice(atoms)
        while self.chance(0.4):
            out += self.random.choice(("+", "-", " * ", "<", "==", "&&", ",", "<<", "|", "%"))
            out += self.random.choice(atoms)
        return out

    # -- compound commands, built-in commands and wrappers

    def compound(self, depth: int) -> str:
        ways: list[Callable[[int], str]] = [
            lambda depth: f"{{ {self.block(depth)}}}",
            lambda depth: f"({self.list_(depth + 1)})",
            self.condition,
            self.loop,
            self.loop,
            self.case,
            lambda depth: f"(({self.arithmetic(depth)}))",
            self.test,
        ]
        if self.wild:
            ways.append(lambda depth: f"{self.random.choice(('f', 'p0'))}() {{ {self.block(depth)}}}")
            ways.append(lambda depth: f"coproc {{ {self.block(depth)}}}")
        out = self.pick(*ways, depth=depth)
        return out + (" " + self.redirection(depth) if self.chance(0.15) else "")

    def condition(self, depth: int) -> str:
        out = f"if {self.block(depth)}then {self.block(depth)}"
        if self.chance(0.3):
            out += f"elif {self.block(depth)}then\n{self.block(depth)}"
        if self.chance(0.4):
            out += f"else {self.block(depth)}"
        return out + "fi"

    def loop(self, depth: int) -> str:
        kind = self.random.randrange(5)
        if kind == 0:
            return f"while {self.random.choice(FAIL)} w; do {self.block(depth)}done"
        if kind == 1:
            return f"until {self.random.choice(SUCCEED)} u\ndo {self.block(depth)}break; done"
        if kind == 2:
            return f"for ((n=0; n<2; n++)); do {self.block(depth)}done"
        if kind == 3:
            return f"for {self.variable()}; do {self.block(depth)}done"
        words = " ".join(self.word(depth) for _ in range(self.random.randrange(3)))
        return f"for {self.variable()} in {words}{self.random.choice(('; ', chr(10)))}do {self.block(depth)}done"

    def case(self, depth: int) -> str:
        out = f"case {self.word(depth)} in\n"
        for _ in range(self.random.randrange(1, 3)):
            pattern = self.random.choice(("*", "w", "a|b", "'x y'", "[ab]*", f'"$({self.name()} c)"', "$x"))
            opener = self.random.choice(("", "("))
            out += f"{opener}{pattern}) {self.block(depth).rstrip('; ')}\n{self.random.choice((';;', ';&', ';;&'))}\n"
        return out + "esac"

    def test(self, depth: int) -> str:
        word = self.word(depth)
        ways = (
            f"[[ {word} == {self.random.choice(('w', '*', '$x', '[ab]*', '(a)'))} ]]",
            f"[[ {word} =~ {self.random.choice(('^a', '(a|b)+', '$x', '.*', 'a$'))} ]]",
            f"[[ -n {word} && ! -e f1 || $x < $y ]]",
            f"[[ {self.random.choice(('1', '$n', 'n', '$x', repr(_INJECTION)))} -eq 1 ]]",
            f"[[ -v {self.random.choice(('x', 'a[0]', repr(_INJECTION), '$x'))} ]]",
        )
        return self.random.choice(ways)

    def builtin(self, depth: int) -> str:
        return self.fill((*_BUILTINS, *(_WILD_BUILTINS if self.wild else ())), depth)

    def wrapper(self, depth: int) -> str:
        return self.fill((*_WRAPPERS, *(_WILD_WRAPPERS if self.wild else ())), depth)

    def nested(self, depth: int) -> str:
        """A script as one word."""
        text = self.list_(depth + 2)
        if self.wild and self.chance(0.3):
            return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`") + '"'  # `$` stays active
        return "'" + text.replace("'", "'\\''") + "'"


class Outcome(NamedTuple):
    """What became of one script."""

    seed: int
    script: str
    proven: bool
    ran: int
    unlisted: tuple[tuple[str, ...], ...]
    """Commands that ran, and match none that the parser lists."""


class Runner:
    """Runs scripts in a folder of their own, with stand-ins for all programs."""

    def __init__(self, top: Path) -> None:
        self.programs = top / "programs"
        self.work = top / "work"
        self.programs.mkdir()
        for name in (*SUCCEED, *FAIL, *SECRET):
            path = self.programs / name
            path.write_text(_STAND_IN, encoding="utf-8")
            path.chmod(0o755)
        for name in WRAPPERS:
            if real := shutil.which(name):
                (self.programs / name).symlink_to(real)
        self.bash = shutil.which("bash") or "bash"

    def compare(self, seed: int) -> Outcome:
        """Parse a random script; run it if the parser calls it proven, and compare."""
        text = Generator(seed).script()
        script = parse_script(text)
        if not script.proven:
            return Outcome(seed, text, False, 0, ())
        records = self.run(text)
        return Outcome(seed, text, True, len(records), tuple(one for one in records if not is_listed(one, script)))

    def run(self, text: str) -> list[tuple[str, ...]]:
        """The commands that ran: their names and arguments."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        reading, writing = os.pipe()
        try:
            # Everything that the script starts holds the pipe, so its end is the end of them all.
            with subprocess.Popen(
                [self.bash, "-c", f'exec 9>&{writing} {writing}>&-; exec "$0" "$@"', self.bash, "--norc", "-c", text],
                cwd=self.work,
                env={"PATH": str(self.programs), "HOME": str(self.work), "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[writing],
                start_new_session=True,
            ) as process:
                os.close(writing)
                writing = -1
                return _records(process, reading)
        finally:
            os.close(reading)
            if writing >= 0:
                os.close(writing)


def _records(process: subprocess.Popen[bytes], reading: int) -> list[tuple[str, ...]]:
    """Read the records until every process of the script has ended; end those that go on too long."""
    data = b""
    until = time.monotonic() + _SECONDS
    while True:
        left = until - time.monotonic()
        if left <= 0 or len(data) > 1 << 20:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            break
        if not select.select([reading], [], [], left)[0]:
            continue
        more = os.read(reading, 65536)
        if not more:
            break
        data += more
    process.wait(_SECONDS)
    return [tuple(one.split(_UNIT)) for one in data.decode("utf-8", "replace").split(_RECORD)[:-1]]


def is_listed(record: Sequence[str], script: Script) -> bool:
    """Whether the parser lists a command that can have had these arguments."""
    return any(run.base == record[0] and _fits(run, list(record[1:])) for run in script.runs)


def _fits(run: Command, arguments: list[str]) -> bool:
    """Whether the words of a command can come to these arguments: a word that is not fixed is any text."""
    reach = {0}
    for word in run.words[1:]:
        fixed = word.fixed
        if fixed is not None:
            reach = {at + 1 for at in reach if arguments[at : at + 1] == [fixed]}
        elif word.splits or "input" in word.holds:
            reach = {later for at in reach for later in range(at, len(arguments) + 1)}
        else:
            reach = {at + 1 for at in reach if at < len(arguments)}
    return len(arguments) in reach


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--count", type=int, default=2000)
    options.add_argument("--show", action="store_true", help="print the scripts and run nothing")
    given = options.parse_args()
    tally: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as top:
        runner = Runner(Path(top))
        for seed in range(given.first, given.first + given.count):
            if given.show:
                text = Generator(seed).script()
                sys.stdout.write(f"--- seed {seed}\n{text}\n{parse_script(text).doubts}\n")
                continue
            outcome = runner.compare(seed)
            tally["proven" if outcome.proven else "not proven"] += 1
            tally["commands that ran"] += outcome.ran
            if outcome.unlisted:
                tally["with unlisted commands"] += 1
                sys.stdout.write(f"seed {seed}: {outcome.unlisted}\n{outcome.script}\n\n")
                sys.stdout.flush()
    sys.stdout.write(f"seeds {given.first} to {given.first + given.count - 1}: {dict(tally)}\n")
    return 1 if tally["with unlisted commands"] else 0


if __name__ == "__main__":
    sys.exit(main())
