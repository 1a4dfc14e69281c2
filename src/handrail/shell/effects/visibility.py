"""How much a read-only command shows of the files it reads: contents, names only, or only files not hidden."""

from __future__ import annotations

from collections.abc import Sequence

from handrail.shell.effects.arguments import Arg
from handrail.shell.effects.git import shows_untracked
from handrail.shell.effects.ruling import Visibility

# Names, sizes, kinds and counts. Git shows what is under version control, which is no secret of this tree any more.
_NAMES = frozenset(
    {"ls", "tree", "find", "fd", "fdfind", "du", "stat", "test", "[", "wc", "file", "realpath", "readlink", "cd"}
)
_UNRESTRICTED = ("--hidden", "--unrestricted", "--no-ignore")


def find_visibility(base: str | None, args: Sequence[Arg]) -> Visibility:
    """What is seen of the files, where the command is known to look only."""
    if base == "git":
        return "contents" if shows_untracked(args) else "names"
    if base in _NAMES:
        return "names"
    if base in ("rg", "ag"):
        texts = [arg.text for arg in args]
        if all(text is not None and not _opens(text) for text in texts):
            return "unhidden"
    return "contents"


def _opens(text: str) -> bool:
    """Whether an option of ripgrep or of ag lets it look into hidden files; one that may, counts."""
    short = text.startswith("-") and not text.startswith("--") and any(letter in text for letter in "u.")
    return short or text.startswith(_UNRESTRICTED)
