"""Solution of step 4: long lines become numbered parts, and each part counts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from handrail import Session


def number_lines(text: str, most: int) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        for part in range(0, max(len(line), 1), most):
            label = f"{number}.{part // most}" if part else f"{number}"
            yield f"{label:>6}\t{line[part : part + most]}"


if __name__ == "__main__":
    text = "short\n" + "abcdefghij" * 3 + "\nend\n"
    print("\n".join(islice(number_lines(text, 12), 4)))
    with tempfile.TemporaryDirectory() as folder:  # how the tools of Handrail do it
        Path(folder, "bundle.js").write_text("var a=1;" * 200_000, encoding="utf-8")
        with Session(folder) as session:
            page = session.call("Read", {"file_path": "bundle.js"})
        print(f"\n1,600,000 characters in one line: the page has {len(page.text) // 1000} thousand of them, and ends")
        print(page.text.splitlines()[-1])
