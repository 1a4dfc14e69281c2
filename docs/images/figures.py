"""Draw the figures of the course: `python docs/images/figures.py` writes docs/images/course/*.svg, in two languages.

What a figure shows of Handrail comes from Handrail: the paths that match a pattern are found by a session.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from handrail import Session

FOLDER = Path(__file__).with_name("course")
INK, GREY, LINE, BLUE, GREEN, RED = "#1f2937", "#6b7280", "#9ca3af", "#dbeafe", "#dcfce7", "#fee2e2"
FONT = "system-ui, -apple-system, 'Segoe UI', 'PingFang SC', 'Noto Sans CJK SC', sans-serif"
MONO = "ui-monospace, 'SFMono-Regular', Menlo, Consolas, monospace"


@dataclass
class Figure:
    """A drawing: its size, its title for readers of the text, and its shapes in order."""

    width: int
    height: int
    title: str
    shapes: list[str] = field(default_factory=list)

    def box(self, x: int, y: int, width: int, height: int, text: str = "", fill: str = "#f9fafb") -> None:
        """A box with lines of text in its middle."""
        size = f'x="{x}" y="{y}" width="{width}" height="{height}"'
        self.shapes.append(f'<rect {size} rx="6" fill="{fill}" stroke="{LINE}"/>')
        rows = text.split("\n") if text else []
        for number, row in enumerate(rows):
            offset = int(18 * (number - (len(rows) - 1) / 2))
            self.text(x + width // 2, y + height // 2 + 5 + offset, row, anchor="middle")

    def text(
        self,
        x: int,
        y: int,
        text: str,
        *,
        anchor: str = "start",
        fill: str = INK,
        mono: bool = False,
        bold: bool = False,
    ) -> None:
        style = f'font-family="{MONO if mono else FONT}" font-size="14" fill="{fill}" text-anchor="{anchor}"'
        weight = ' font-weight="600"' if bold else ""
        self.shapes.append(f'<text x="{x}" y="{y}" {style}{weight} xml:space="preserve">{escape(text)}</text>')

    def arrow(self, x1: int, y1: int, x2: int, y2: int) -> None:
        ends = f'x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"'
        self.shapes.append(f'<line {ends} stroke="{GREY}" stroke-width="1.5" marker-end="url(#head)"/>')

    def render(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" role="img">'
        )
        marker = (
            '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0 0L10 5L0 10z" fill="{GREY}"/></marker>'
        )
        paper = f'<rect width="{self.width}" height="{self.height}" fill="#ffffff"/>'
        rows = [
            head,
            f"<title>{escape(self.title)}</title>",
            f"<defs>{marker}</defs>",
            paper,
            *self.shapes,
            "</svg>",
            "",
        ]
        return "\n".join(rows)


PATHS = ("main.py", "agents/base.py", "agents/coder.py", "agents/deep/inner.py", "agents/deep/er/most.py")
PATTERNS = ("*.py", "agents/*.py", "agents/**/*.py", "**/*.py")


def draw_glob(say: Callable[[str, str], str]) -> Figure:
    """Which paths which pattern finds; found by Glob."""
    figure = Figure(760, 250, say("* stays in its directory, ** crosses directories", "* 不跨目录，** 跨目录"))
    with tempfile.TemporaryDirectory() as folder:
        for name in PATHS:
            Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, name).touch()
        with Session(folder, journal=None) as session:
            found = [session.call("Glob", {"pattern": pattern}).data["paths"] for pattern in PATTERNS]
    for column, pattern in enumerate(PATTERNS):
        figure.text(295 + column * 130, 34, pattern, anchor="middle", mono=True, bold=True)
    for row, name in enumerate(PATHS):
        y = 50 + row * 36
        figure.text(20, y + 21, name, mono=True)
        for column, paths in enumerate(found):
            hit = name in paths
            word = say("found", "命中") if hit else "-"
            figure.box(235 + column * 130, y, 120, 30, word, GREEN if hit else "#f9fafb")
    return figure


def draw_paging(say: Callable[[str, str], str]) -> Figure:
    """A long file, a page of it, and what the page ends with."""
    figure = Figure(760, 250, say("A page of a long file", "长文件的一页"))
    figure.text(105, 30, say("the file: 100,000 lines", "文件：100,000 行"), anchor="middle", fill=GREY)
    figure.box(30, 42, 150, 60, "1 ... 61800")
    figure.box(30, 102, 150, 44, "61801 ... 61804", BLUE)
    figure.box(30, 146, 150, 80, "61805 ... 100000")
    figure.arrow(180, 124, 290, 124)
    figure.text(235, 114, "Read", anchor="middle", mono=True)
    figure.text(510, 30, say("what the model reads", "模型读到的内容"), anchor="middle", fill=GREY)
    figure.box(292, 42, 440, 184, fill=BLUE)
    page = ["61801  INFO request 61801 done", "61802  INFO request 61802 done", "61803  ERROR the disk is full"]
    page += ["61804  INFO request 61804 done", "(more lines follow: offset=61805)"]
    for number, row in enumerate(page):
        figure.text(312, 78 + number * 30, row, mono=True, bold=number == len(page) - 1)
    return figure


def draw_call(say: Callable[[str, str], str]) -> Figure:
    """The steps of a call, with what stops it before anything has changed."""
    figure = Figure(760, 270, say("The path of a call", "一次调用的路径"))
    steps = [
        ("parse", say("arguments", "解析参数")),
        ("declare", say("accesses", "声明访问")),
        ("resolve", say("boundary", "检查边界")),
        ("judge", say("rules", "按规则裁决")),
        ("approve", say("a person", "人工同意")),
        ("run", say("stages changes", "暂存改动")),
        ("commit", say("all or none", "全部或全不")),
        ("record", say("journal", "写入日志")),
    ]
    for number, (name, about) in enumerate(steps):
        x, y = 20 + number % 4 * 185, 50 + number // 4 * 120
        figure.box(x, y, 150, 60, f"{name}\n{about}", BLUE if number < 5 else GREEN)
        if number % 4 < 3:
            figure.arrow(x + 150, y + 30, x + 184, y + 30)
    figure.arrow(650, 110, 96, 169)
    figure.text(
        20,
        32,
        say("Until here nothing has changed: a refusal costs nothing.", "到同意为止什么都没改：拒绝没有任何代价。"),
        fill=GREY,
    )
    figure.text(
        20,
        255,
        say(
            "The order is the same for every tool, refusals are recorded too.",
            "所有工具同一个顺序，被拒绝的调用也会记录。",
        ),
        fill=GREY,
    )
    return figure


def draw_draft(say: Callable[[str, str], str]) -> Figure:
    """A command sees the workspace and changes a draft."""
    figure = Figure(760, 290, say("A draft", "草稿"))
    figure.box(20, 110, 150, 70, say("workspace\nunchanged", "工作区\n保持不变"))
    figure.box(250, 110, 200, 70, say("draft\ncopy-on-write view", "草稿\n写时复制的视图"), BLUE)
    figure.box(275, 20, 150, 50, say("the command", "命令"))
    figure.arrow(350, 70, 350, 109)
    figure.text(362, 95, say("changes", "改动"), fill=GREY)
    figure.arrow(170, 145, 249, 145)
    figure.text(210, 135, say("sees", "看到"), anchor="middle", fill=GREY)
    figure.arrow(450, 145, 529, 145)
    figure.box(
        530, 100, 200, 90, say("each path is judged\nlike Write and Edit", "逐个路径裁决\n与 Write、Edit 同一规则")
    )
    figure.box(530, 220, 200, 50, say("kept and recorded", "保留并记录"), GREEN)
    figure.box(250, 220, 200, 50, say("dropped", "丢弃"), RED)
    figure.arrow(630, 190, 630, 219)
    figure.arrow(560, 190, 452, 226)
    figure.arrow(529, 250, 452, 250)
    figure.text(490, 267, "undo", anchor="middle", mono=True)
    return figure


def draw_search(say: Callable[[str, str], str]) -> Figure:
    """Two ways to one answer."""
    figure = Figure(760, 250, say("ripgrep and the index", "ripgrep 与索引"))
    figure.box(20, 95, 110, 60, "Grep")
    figure.box(190, 30, 210, 60, say("ripgrep\nreads every file", "ripgrep\n读每一个文件"), BLUE)
    figure.box(190, 160, 210, 60, say("index\nthree-letter pieces", "索引\n三字符片段"), BLUE)
    figure.box(440, 160, 130, 60, say("few files\nto read", "只读\n少数文件"), BLUE)
    figure.box(610, 95, 130, 60, say("one answer\npartial or not", "同一种回答\n是否完整"), GREEN)
    figure.arrow(130, 115, 189, 70)
    figure.arrow(130, 135, 189, 185)
    figure.arrow(400, 60, 609, 112)
    figure.arrow(400, 190, 439, 190)
    figure.arrow(570, 185, 614, 156)
    figure.text(150, 22, say("up to some ten thousand files", "几万个文件以内"), fill=GREY)
    figure.text(150, 244, say("large trees, once the index is built", "大型目录树，索引建好之后"), fill=GREY)
    return figure


FIGURES = {"glob": draw_glob, "paging": draw_paging, "call": draw_call, "draft": draw_draft, "search": draw_search}


def draw_all() -> Iterator[tuple[str, str]]:
    """Each file's name and content."""
    for name, draw in FIGURES.items():
        yield f"{name}.svg", draw(lambda english, _: english).render()
        yield f"{name}.zh.svg", draw(lambda _, chinese: chinese).render()


def main() -> None:
    folder = Path(sys.argv[1]) if sys.argv[1:] else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in draw_all():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
