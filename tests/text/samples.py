"""Files as they are in real projects: nested and repeated blocks, odd characters, both usual line endings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Sample:
    """A file, what one level of its indentation is, and whether it is prose."""

    text: str
    unit: str
    prose: bool = False


def _joined(rng: Random, rows: list[str], unit: str, prose: bool = False) -> Sample:
    """The rows with the line endings of one system, and with or without a final one."""
    end = rng.choice(["\n", "\n", "\n", "\r\n"])
    text = end.join(rows) + (end if rng.random() < 0.8 else "")
    return Sample(text, unit, prose)


_NAMES = ("load", "store", "count", "total", "user", "item", "limit")


def _block(
    rng: Random, unit: str, depth: int, leaf: Callable[[Random], str], head: Callable[[Random], str]
) -> list[str]:
    """Nested lines: heads with deeper lines below them, here and there a blank one."""
    rows: list[str] = []
    for _ in range(rng.randint(1, 4)):
        if depth < 4 and rng.random() < 0.35:
            rows.append(unit * depth + head(rng))
            rows += _block(rng, unit, depth + 1, leaf, head)
        else:
            rows.append(unit * depth + leaf(rng))
        if rng.random() < 0.1:
            rows.append(rng.choice(["", "", unit * depth]))
    return rows


def _repeated(rng: Random, rows: list[str]) -> list[str]:
    """The rows, at times with a part of them again further down: as it is, nearly as it is, or deeper."""
    if len(rows) < 4 or rng.random() < 0.5:
        return rows
    at = rng.randrange(len(rows) - 2)
    part = rows[at : at + rng.randint(2, 8)]
    kind = rng.random()
    if kind < 0.4:
        odd = rng.randrange(len(part))
        part = [*part[:odd], part[odd].replace("a", "o", 1) + rng.choice(["", " "]), *part[odd + 1 :]]
    elif kind < 0.7:
        part = ["    " + row for row in part]
    return [*rows, "", *part]


def _python_leaf(rng: Random) -> str:
    name, other = rng.choice(_NAMES), rng.choice(_NAMES)
    return rng.choice(
        [
            f"{name} = {other}({rng.randint(1, 30)})",
            f"return {name}",
            f'print("{name}:\\t{{}}\\n".format({other}))',
            f'log("{name} \\"{other}\\"", sep="\\\\n")',
            f"# the {name} of every {other} is kept here",
            f"# retry {rng.randint(1, 9)} times before giving up",
            f"assert {name} <= {other} and {name} != {rng.randint(1, 5)}",
            f'text = "&lt;{name}&gt; &amp; more"',
            f"{name} += 1  # don’t — ever — reset",
            "...",
            "pass",
            f"{name}: dict[str, list[int]] = {{}}",
            f'run("--{name}", "café", check={other})  # déjà vu',
            f"{name}.setdefault({other}, []).append(compute({name}, {other}, {rng.randint(1, 99)}))",
        ]
    )


def _python_head(rng: Random) -> str:
    name = rng.choice(_NAMES)
    return rng.choice(
        [f"if {name}:", f"for {name} in items:", f"def {name}(self) -> int:", "try:", f"with {name}() as f:"]
    )


def python(rng: Random) -> Sample:
    unit = rng.choice(["    ", "    ", "  "])
    rows = ["import os", "", *_block(rng, unit, 0, _python_leaf, _python_head), ""]
    rows += _block(rng, unit, 1, _python_leaf, _python_head)
    return _joined(rng, _repeated(rng, rows), unit)


def go(rng: Random) -> Sample:
    def leaf(rng: Random) -> str:
        name = rng.choice(_NAMES)
        return rng.choice(
            [
                f"{name} := {rng.choice(_NAMES)}({rng.randint(1, 30)})",
                f'fmt.Printf("%s\\n", {name})',
                f"// {name} holds the value of the last call",
                "return nil, err",
                "}",
                f"if {name} <- ch; {name} < 3 && ok {{",
                "err = nil",
            ]
        )

    def head(rng: Random) -> str:
        return rng.choice(["if err != nil {", f"for _, {rng.choice(_NAMES)} := range all {{", "switch {"])

    rows = ["package main", "", "func main() {", *_block(rng, "\t", 1, leaf, head), "}", ""]
    rows += ["func other() {", *_block(rng, "\t", 1, leaf, head), "}"]
    return _joined(rng, _repeated(rng, rows), "\t")


def yaml(rng: Random) -> Sample:
    def leaf(rng: Random) -> str:
        name = rng.choice(_NAMES)
        return rng.choice(
            [f"{name}: {rng.randint(1, 9)}", f"- {name}", f'{name}: "it\'s {name}"', f"# {name}: off", f"{name}: yes  "]
        )

    rows = _block(rng, "  ", 0, leaf, lambda rng: f"{rng.choice(_NAMES)}:") + _block(
        rng, "  ", 0, leaf, lambda rng: f"{rng.choice(_NAMES)}:"
    )
    return _joined(rng, _repeated(rng, rows), "  ")


def markdown(rng: Random) -> Sample:
    rows = ["# Title", ""]
    for _ in range(rng.randint(2, 6)):
        name = rng.choice(_NAMES)
        rows += rng.choice(
            [
                [f"## The {name}", ""],
                ["```python", f"{name} = 1", "...", "```", ""],
                [f"Use the `{name}` option — it’s “fast” — with version {rng.randint(1, 3)}.{rng.randint(0, 9)}.", ""],
                [f"- first {name}", f"  - second {name}", "- third", ""],
                [f"Do not use {name} &lt;here&gt; &amp; there.", "The rest stays the same ...", ""],
                ["1. one", "2. two", "3. three", ""],
                [f"这是 {name} 的说明，请勿修改。详见：下文", ""],
            ]
        )
    return _joined(rng, _repeated(rng, rows), "  ", prose=True)


def typescript(rng: Random) -> Sample:
    def leaf(rng: Random) -> str:
        name = rng.choice(_NAMES)
        return rng.choice(
            [
                f"const {name} = {rng.choice(_NAMES)}.map((x) => x + {rng.randint(1, 9)})",
                f"return `${{{name}}}\\n`",
                f"// ... {name} and the rest of the existing code",
                f"if (a < b && c > d) {name}()",
                "}",
                f"/* “{name}” is odd */",
                f"  {name}: '\\t',",
                f'<div class="{name}">&nbsp;</div>',
            ]
        )

    unit = rng.choice(["  ", "\t", "    "])
    rows = ["export {}", *_block(rng, unit, 0, leaf, lambda rng: f"function {rng.choice(_NAMES)}() {{"), "}"]
    return _joined(rng, _repeated(rng, rows), unit)


def makefile(rng: Random) -> Sample:
    rows: list[str] = []
    for _ in range(rng.randint(2, 5)):
        rows += [
            f"{rng.choice(_NAMES)}: {rng.choice(_NAMES)}",
            f'\techo --all "{rng.choice(_NAMES)}" \\',
            "\t  && true",
            "",
        ]
        rows += [f"{rng.choice(_NAMES).upper()} := {rng.randint(1, 9)}"] if rng.random() < 0.5 else []
    return _joined(rng, _repeated(rng, rows), "\t")


def log(rng: Random) -> Sample:
    """Numbers at the start of lines that are data, not a gutter."""
    mark = rng.choice(["\t", ": ", " | ", ","])
    rows = [f"{number}{mark}{rng.choice(_NAMES)}{mark}{rng.randint(1, 3)}" for number in range(1, rng.randint(5, 14))]
    return _joined(rng, _repeated(rng, rows), "    ")


def cjk(rng: Random) -> Sample:
    def leaf(rng: Random) -> str:
        name = rng.choice(_NAMES)
        return rng.choice(
            [
                f"# 读取“{name}”的内容，不要修改。",
                f"{name} = '（{name}）'",
                f"print('{name}：完成', {name})",
                f"{name}　= 1",
            ]
        )

    return _joined(rng, _repeated(rng, _block(rng, "    ", 0, leaf, _python_head) * 2), "    ")


def ragged(rng: Random) -> Sample:
    """A file whose indentation is inconsistent."""
    rows = [
        rng.choice(["", "  ", "   ", "    ", "\t", "\t  ", "        "]) + _python_leaf(rng)
        for _ in range(rng.randint(5, 20))
    ]
    return _joined(rng, rows, rng.choice(["  ", "    ", "\t"]))


SAMPLES = (python, python, go, go, yaml, markdown, typescript, makefile, log, cjk, ragged)
