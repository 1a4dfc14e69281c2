"""Rules for a team: what may run, what is asked about, what is refused. Shows the verdicts and who decides.

In a project the rules are read from `handrail.toml` by themselves; here they are given to the session.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from handrail import Answer, Question, Session, Setup, parse_rules

RULES = parse_rules((Path(__file__).with_name("handrail.toml")).read_text(encoding="utf-8"))
CALLS = [
    ("Write", {"file_path": "src/app.py", "content": "print('hello')\n"}),
    ("Write", {"file_path": "migrations/001.sql", "content": "DROP TABLE customers;\n"}),
    ("Write", {"file_path": "migrations/002.sql", "content": "CREATE TABLE orders (id INTEGER);\n"}),
    ("Write", {"file_path": "generated/api.py", "content": "\n"}),
    ("Read", {"file_path": "customers/list.csv"}),
]


def approve(question: Question) -> Answer:
    """Who reviews migrations: here a function, in a team a person."""
    dangerous = "DROP" in question.preview()
    return Answer(not dangerous, "no table is dropped here" if dangerous else "")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "customers").mkdir()
        Path(folder, "customers", "list.csv").write_text("Ada,1\n", encoding="utf-8")
        with Session(folder, setup=Setup(rules=[RULES]), approve=approve) as session:
            for tool, arguments in CALLS:
                result = session.call(tool, arguments)
                print(f"{result.status:7} {tool} {arguments['file_path']}: {result.text.splitlines()[0]}")
