"""The edit blocks of aider: answers the requests of the benchmark, one JSON object a line."""

from __future__ import annotations

import json
import os
import sys

from aider.coders.editblock_coder import do_replace  # type: ignore[import-not-found]


def main(root: str) -> None:
    for line in sys.stdin:
        ask = json.loads(line)
        if ask["do"] != "edit":
            print(json.dumps({"missing": True}), flush=True)
            continue
        path = os.path.join(root, ask["path"])
        with open(path, encoding="utf-8", newline="") as file:
            content = file.read()
        after = do_replace(path, content, ask["old"] + "\n", ask["new"] + "\n", fence=("```", "```"))
        if after:
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(after)
        print(json.dumps({"ok": bool(after), "text": ""}), flush=True)


main(sys.argv[1])
