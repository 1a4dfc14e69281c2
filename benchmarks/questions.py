"""How often is a person asked? Runs recorded commands of agents for real and counts each question where it arises.

    python -m benchmarks.questions COMMANDS.jsonl.gz --workspace CHECKOUT [--rows 500] [--show 5]

Each line of the file is `{"command": ...}`; `{workspace}` and `{home}` stand for these directories. The commands run in
a clone of the checkout, with an empty home directory, in `accept-edits`. Questions before a command runs come from its
words; questions after it has run come from what it changed in its draft. The person says yes to such changes, "always"
to reading a directory outside, and no to everything else.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from handrail import Answer, Question, Session, Settings

LIMIT = 5
"""Seconds for a command. Most of the projects' tools are missing here, so a command ends soon or waits."""
WRITES = ("gh", "push")
"""What writes to the network: asked about on purpose, and counted apart."""
REMOTE = "https://git.example.invalid/project.git"


class Tally:
    """The questions about one command after another, by the moment and the rule."""

    def __init__(self) -> None:
        self.command = ""
        self.counts: Counter[tuple[str, str]] = Counter()
        self.examples: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    def answer(self, question: Question) -> Answer:
        """Count a question, and answer it as a person would."""
        rule = question.verdict.rule
        if rule.endswith("network") and set(WRITES) & set(self.command.split()):
            rule = "network write (gh, push)"
        self.add("after" if question.files else "before", rule)
        if rule.endswith("outside_read"):
            return Answer(yes=True, lasting="always")
        return Answer(yes=bool(question.files))

    def add(self, moment: str, rule: str) -> None:
        self.counts[moment, rule] += 1
        self.examples[moment, rule].append(self.command)


def read_commands(path: Path, workspace: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            command = json.loads(line)["command"]
            yield command.replace("{workspace}", str(workspace)).replace("{home}", str(Path.home()))


def count_questions(commands: Sequence[str], workspace: Path, state: Path) -> Tally:
    tally = Tally()
    with Session(workspace, mode="accept-edits", approve=tally.answer, settings=Settings(state=str(state))) as session:
        for number, tally.command in enumerate(commands):
            result = session.call("Bash", {"command": tally.command, "timeout": LIMIT})
            if result.status == "denied" and not any(tally.command in rows for rows in tally.examples.values()):
                tally.add("refused", result.error.code if result.error else "")
            if number % 100 == 99:
                print(f"{number + 1} commands, {sum(tally.counts.values())} questions", file=sys.stderr, flush=True)
    return tally


def clone(checkout: Path, folder: Path) -> Path:
    """A clone of the checkout whose remote is an address that nobody answers."""
    workspace = folder / "project"
    subprocess.run(["git", "clone", "-q", checkout, workspace], check=True)
    for words in (
        ["remote", "set-url", "origin", REMOTE],
        ["config", "user.name", "A"],
        ["config", "user.email", "a@b"],
    ):
        subprocess.run(["git", "-C", workspace, *words], check=True)
    return workspace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", type=Path)
    parser.add_argument("--workspace", type=Path, required=True, help="a checkout; it is cloned, not changed")
    parser.add_argument("--rows", type=int, help="only so many commands, spread over the file")
    parser.add_argument("--show", type=int, default=3, help="examples for each class")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="handrail-questions-") as place:
        folder = Path(place).resolve()
        workspace = clone(asked.workspace, folder)
        os.environ["HOME"] = str(folder / "home")
        Path.home().mkdir()
        commands = list(read_commands(asked.commands, workspace))
        if asked.rows:
            commands = commands[:: max(1, len(commands) // asked.rows)]
        tally = count_questions(commands, workspace, folder / "state")
    print(f"{len(commands)} commands\n\n| When | Rule | Questions | Share |\n|---|---|---|---|")
    for (moment, rule), count in tally.counts.most_common():
        print(f"| {moment} | {rule} | {count} | {100 * count / len(commands):.1f} % |")
    for key, rows in tally.examples.items():
        for row in rows[: asked.show]:
            print(f"{key}: {row[:150]!r}", file=sys.stderr)


if __name__ == "__main__":
    main()
