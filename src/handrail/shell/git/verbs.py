"""git: which verbs only look, which change the work tree, which files they come to, and where each command runs.

Git finds its settings through its directory and its environment. A looking command counts as one only where the script
leaves both as they were given to it, so that the settings can be inspected before it runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from handrail.frozen import frozen
from handrail.shell.effects.arguments import (
    Arg,
    FileAction,
    FileEffect,
    ParsedOptions,
    Places,
    Program,
    Ruling,
    Value,
    join_path,
    parse_options,
)
from handrail.shell.parser.script import Command
from handrail.shell.parser.wrappers import SHELLS

_DIFF = (
    "patch no-patch unified? raw patch-with-raw minimal patience histogram diff-algorithm= stat? "
    "compact-summary numstat "
    "shortstat dirstat? summary name-only name-status color? no-color word-diff? word-diff-regex= color-words? "
    "no-renames find-renames? find-copies? check full-index binary abbrev? diff-filter= ignore-all-space "
    "ignore-space-change ignore-blank-lines ignore-space-at-eol ignore-cr-at-eol function-context no-ext-diff "
    "no-textconv exit-code quiet relative? text inter-hunk-context= src-prefix= dst-prefix= no-prefix cached staged "
    "merge-base no-index submodule? ignore-submodules? color-moved? pickaxe-regex pickaxe-all rotate-to= cc "
    "combined-all-paths"
)
_LOG = (
    _DIFF + " oneline graph all branches? tags? remotes? max-count= skip= since= after= until= before= author= "
    "committer= grep= "
    "all-match invert-grep regexp-ignore-case extended-regexp fixed-strings perl-regexp merges no-merges first-parent "
    "follow reverse date= date-order topo-order author-date-order pretty? format? abbrev-commit no-abbrev-commit "
    "decorate? no-decorate decorate-refs= parents children left-right cherry-pick cherry-mark left-only right-only "
    "full-history simplify-merges simplify-by-decoration ancestry-path? no-notes notes? source walk-reflogs no-walk? "
    "boundary count encoding? relative-date use-mailmap no-mailmap numbered"
)
_LOOKS = Program("pubwacCMRszqiEFPmgrtU0123456789", "SGLnl", _LOG, "texts", numbers=True, closed=False)
_LIST = (
    "list all remotes verbose contains? no-contains? merged? no-merged? points-at? sort= format= "
    "column? no-column color? no-color"
)
_VERBS: dict[str, Program] = {
    "status": Program(
        "sbvuz",
        "",
        "short branch show-stash porcelain? long verbose untracked-files? ignored? ignore-submodules? "
        "column? no-column ahead-behind no-ahead-behind renames no-renames find-renames?",
        "texts",
        closed=False,
    ),
    "log": _LOOKS,
    "diff": _LOOKS,
    "show": _LOOKS,
    "shortlog": Program("nsec", "", _LOG + " summary email group=", "texts", closed=False),
    "whatchanged": _LOOKS,
    "rev-list": _LOOKS,
    "diff-tree": _LOOKS,
    "diff-index": _LOOKS,
    "diff-files": _LOOKS,
    "blame": Program(
        "belstfnwpcCM",
        "L",
        "root show-name show-number show-email porcelain line-porcelain date= abbrev? since= ignore-rev= color-lines",
        "texts",
        closed=False,
    ),
    "annotate": Program("l", "L", "", "texts", closed=False),
    "grep": Program(
        "aiIwvhHEGPFnlLcpWqzor",
        "ABCefm",
        "cached untracked no-index text ignore-case word-regexp invert-match "
        "full-name extended-regexp basic-regexp perl-regexp fixed-strings line-number column files-with-matches "
        "name-only files-without-match count color? no-color break heading show-function context= after-context= "
        "before-context= function-context max-depth= and or not all-match quiet max-count= only-matching "
        "exclude-standard no-exclude-standard",
        "texts",
        reads="f",
        numbers=True,
        closed=False,
    ),
    "branch": Program("arvlqi", "", _LIST + " show-current abbrev? no-abbrev ignore-case", "none", closed=False),
    "tag": Program("ln", "", _LIST + " ignore-case", "none", numbers=True, closed=False),
    "rev-parse": Program(
        "q",
        "",
        "abbrev-ref? show-toplevel short? verify quiet git-dir absolute-git-dir git-common-dir "
        "is-inside-work-tree is-inside-git-dir is-bare-repository show-prefix show-cdup symbolic-full-name "
        "symbolic all branches? tags? remotes? sq default= path-format= git-path=",
        "texts",
        closed=False,
    ),
    "ls-files": Program(
        "cdmosiktuzvr",
        "xX",
        "cached deleted modified others ignored stage unmerged killed directory "
        "exclude= exclude-from= exclude-standard exclude-per-directory= error-unmatch full-name abbrev? debug "
        "deduplicate eol format= recurse-submodules",
        "texts",
        reads="X exclude-from",
        closed=False,
    ),
    "ls-tree": Program(
        "drtlz", "", "long name-only name-status full-name full-tree abbrev? object-only format=", "texts", closed=False
    ),
    "describe": Program(
        "",
        "",
        "all tags contains abbrev? dirty? always long match= exclude= exact-match first-parent broken?",
        "texts",
        closed=False,
    ),
    "cat-file": Program("tsep", "", "batch-check? allow-unknown-type", "texts", closed=False),
    "merge-base": Program("a", "", "all is-ancestor fork-point octopus independent", "texts", closed=False),
    "name-rev": Program("", "", "name-only tags refs= all always", "texts", closed=False),
    "for-each-ref": Program(
        "", "", "count= sort= format= contains? merged? no-merged? points-at=", "texts", closed=False
    ),
    "show-ref": Program("dhqs", "", "head dereference hash? verify quiet tags heads branches", "texts", closed=False),
    "show-branch": Program("ar", "", "all remotes current list", "texts", closed=False),
    "check-ignore": Program("vqnz", "", "verbose quiet non-matching no-index", "texts", closed=False),
    "check-attr": Program("a", "", "all", "texts", closed=False),
    "count-objects": Program("vH", "", "verbose human-readable", "none", closed=False),
    "cherry": Program("v", "", "abbrev?", "texts", closed=False),
    "version": Program("", "", "build-options", "none", closed=False),
    "var": Program("", "", "", "texts", closed=False),
}
_SECOND: dict[str, tuple[str, ...]] = {
    "remote": ("", "-v", "--verbose", "get-url"),
    "stash": ("list", "show"),
    "worktree": ("list",),
    "reflog": ("", "show", "-n"),
    "bisect": ("log",),
    "notes": ("list", "show"),
    "submodule": ("status",),
}
"""Verbs that only look with one of these words behind them."""
_CLONE = Program(
    "qvnls",
    "bo",
    "quiet verbose progress no-checkout bare mirror local no-local no-hardlinks shared branch= origin= depth= "
    "single-branch no-single-branch no-tags",
)
"""Options of `git clone` with which it contacts nothing but its source."""
QUIET_GLOBALS = ("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects")
_NETWORK = {
    "fetch": (),
    "pull": (),
    "push": (),
    "clone": (),
    "ls-remote": (),
    "remote": ("show", "update", "prune"),
    "submodule": ("update", "add", "sync"),
    "lfs": ("pull", "push", "fetch", "clone"),
    "send-email": (),
    "svn": (),
}
_CHANGED_BY_WORDS = ("rm", "mv", "checkout", "restore", "clone", "reset", "clean", "stash", "push")
"""Verbs whose words decide what is changed or lost."""
_MAKES_DIRECTORIES = ("clone", "worktree", "init", "submodule", "bundle", "archive")
_TELLS_NAMES = ("status", "branch", "tag", "rev-parse", "ls-files", "ls-tree", "describe")
_TAKES_TEXT = re.compile(r"-[a-z]*m|--message")
_STAGE = re.compile(r"^:[0-3]:")


def find_verb(args: Sequence[Arg]) -> tuple[str | None, int, str]:
    """The verb, the index behind it, and the first word in front of it that is not known to be harmless."""
    at, odd = 0, ""
    while at < len(args):
        text = args[at].text
        if text is None:
            return None, at, odd
        at += 1
        if not text.startswith("-"):
            return text, at, odd
        if text not in QUIET_GLOBALS:
            odd = odd or text
        if text in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--exec-path"):
            at += 1
    return "", at, odd


def git_goes_out(args: Sequence[Arg]) -> bool:
    verb, at, odd = find_verb(args)
    if (
        verb is None
        or verb not in _NETWORK
        or (verb == "clone" and not odd and _find_local_source(args[at:]) is not None)
    ):
        return False
    seconds = _NETWORK[verb]
    return not seconds or (at < len(args) and args[at].text in seconds)


def judge_git(args: Sequence[Arg]) -> Ruling:
    """Judge a git command."""
    verb, at, odd = find_verb(args)
    rest = list(args[at:])
    if verb is None:
        return Ruling(doubt="what git is to do is computed")
    if not verb:
        alone = len(args) == 1 and args[0].text in ("--version", "--exec-path", "--help")
        return Ruling("read_only") if alone else Ruling(why="git without a verb")
    files, doubt = _find_files(verb, rest)
    if odd:
        doubt = doubt or (f"git with {odd} works elsewhere or with other settings" if files else "")
        return Ruling(why=f"{odd} changes what git does", doubt=doubt, files=tuple(files))
    why = _explain_change(verb, rest)
    return Ruling("ordinary" if why else "read_only", why, doubt if why else "", tuple(files))


def _explain_change(verb: str, rest: Sequence[Arg]) -> str:
    """Why it may do more than look."""
    if verb in _SECOND:
        second = (rest[0].text or "?") if rest else ""
        if second not in _SECOND[verb]:
            return f"git {verb} {second}".rstrip() + " may change something"
        if any(arg.text is None or (arg.text.startswith("-") and arg.text != second and arg.text not in ("-p", "--stat",
               "--oneline", "-v", "--cached", "--recursive", "--quiet")) for arg in rest):  # fmt: skip
            return f"unknown option of git {verb}"
        return ""
    if verb in ("config", "symbolic-ref"):
        return "" if _only_asks(verb, rest) else f"git {verb} with these arguments may change something"
    row = _VERBS.get(verb)
    if row is None:
        return f"git {verb} may change something"
    parsed = parse_options(row, rest)
    if parsed.unknown:
        return f"unknown option {parsed.unknown} of git {verb}"
    if parsed.loose or any(arg.text is None and arg.values is None for arg in parsed.operands):
        return f"an argument of git {verb} is computed"
    for name, value in parsed.options:
        if name == "submodule" and value is not None and value.text not in ("log", "short"):
            return "git diffs submodules with their own settings, those of older commits too"
    if row.operands == "none" and parsed.operands and not parsed.has("l", "list", "contains", "merged", "no-merged"):
        return f"git {verb} with a name makes or changes one"
    return ""


_CONFIG = Program(
    "lz",
    "",
    "list get get-all get-regexp get-urlmatch local global system worktree show-origin show-scope name-only null "
    "type= default= bool int path includes no-includes",
    "texts",
)
_SYMBOLIC = Program("q", "", "quiet short recurse no-recurse", "texts")


def _only_asks(verb: str, rest: Sequence[Arg]) -> bool:
    """Whether `config` or `symbolic-ref` tells a value: a second word would set it."""
    parsed = parse_options(_CONFIG if verb == "config" else _SYMBOLIC, rest)
    words = [arg.text for arg in parsed.operands]
    if parsed.unknown or None in words:
        return False
    if verb == "symbolic-ref":
        return len(words) == 1
    if parsed.has("l", "list", "get", "get-all", "get-regexp", "get-urlmatch"):
        return True
    if words[:1] in (["list"], ["get"]):
        return len(words) == (1 if words[0] == "list" else 2)
    return len(words) == 1 and "." in (words[0] or "")


def _find_files(verb: str, rest: Sequence[Arg]) -> tuple[list[FileEffect], str]:
    """The files that a verb shows, those outside of the workspace that its words name, and a doubt about them.

    What else it changes is known when it has ended.
    """
    row = _VERBS.get(verb)
    parsed = parse_options(row or Program(), rest)
    if row is not None:
        files = [] if verb in _TELLS_NAMES else _find_shown_files(verb, parsed)
        named = (value for name, value in parsed.options if name in row.read_names and value)
        return [*files, *(effect for value in named for effect in value.files("read"))], ""
    doubtful = verb in _CHANGED_BY_WORDS and any(arg.values is None for arg in rest)
    doubt = "file names come from variables or substitutions" if doubtful else ""
    if verb in ("add", "mv"):
        return [effect for arg in parsed.operands for effect in arg.files("read", below=True)], doubt
    if verb == "config":
        changes = [] if _only_asks(verb, rest) else ["~/.gitconfig" if parsed.has("global") else ".git/config"]
        return [FileEffect("write", path) for path in changes], doubt
    if verb == "remote":  # the next fetch would go there
        names_host = any(arg.text is None or ":" in arg.text.removeprefix("file:") for arg in rest)
        return [FileEffect("write", ".git/config")] if names_host else [], doubt
    behind = pairwise((Arg("", ()), *rest))
    action: FileAction = "write" if verb in _MAKES_DIRECTORIES else "read"
    outside = (arg for left, arg in behind if not _TAKES_TEXT.fullmatch(left.text or "") and _is_outside(arg))
    return [effect for arg in outside for effect in arg.files(action, below=True)], doubt


def _is_outside(arg: Arg) -> bool:
    """Whether a word may name a file outside of the workspace."""
    return any(value.home or re.match(r"/|\.\.(?:/|$)", value.text) for value in arg.values or ())


def _find_local_source(rest: Sequence[Arg]) -> Arg | None:
    """The directory that is cloned; None if another machine or a program may be contacted for it."""
    parsed = parse_options(_CLONE, rest)
    if parsed.unknown or parsed.loose or not 1 <= len(parsed.operands) <= 2:
        return None
    source = parsed.operands[0]
    text = source.text
    if text is None:  # `~/project` is known, too
        values = source.values or ()
        return source if len(values) == 1 and values[0].home and not values[0].glob else None
    if text.startswith("file:///"):
        return Arg(text, (Value(text[7:]),))
    return source if text and ":" not in text.partition("/")[0] else None


def _find_shown_files(verb: str, parsed: ParsedOptions) -> list[FileEffect]:
    """The files that words name, and all others unless the words decide; what may be a revision counts as a file."""
    out: list[FileEffect] = []
    for arg in parsed.operands[1:] if verb == "grep" and not parsed.has("e", "f") else parsed.operands:
        revision, colon, path = _STAGE.sub(":", arg.text or "").partition(":")
        is_stored = colon and path and not revision.startswith("/")
        out += [FileEffect("read", path)] if is_stored else arg.files("read", below=True)
    lines = (value.text or "" for name, value in parsed.options if name == "L" and value is not None)
    out += [FileEffect("read", path) for text in lines if (path := text.partition(":")[2])]
    return out if out and leaves_index(verb, parsed) else [*out, FileEffect("read", ".", below=True)]


def leaves_index(verb: str | None, parsed: ParsedOptions) -> bool:
    """Whether git may show files that are not under version control: `diff` with two paths does, if one is outside."""
    return parsed.has("no-index", "untracked") or (verb == "diff" and len(parsed.operands) == 2)


def shows_untracked(args: Sequence[Arg]) -> bool:
    """Whether a whole command may show such files."""
    verb, at, _ = find_verb(args)
    return verb in _VERBS and leaves_index(verb, parse_options(_VERBS[verb], args[at:]))


_SAME_PLACE = frozenset(
    (
        "command",
        "builtin",
        "exec",
        "nice",
        "ionice",
        "timeout",
        "stdbuf",
        "eval",
        "xargs",
        "time",
        "env",
        "find",
        *SHELLS,
    )
)
"""Wrappers that leave the directory and the variables alone, unless an option says otherwise."""
_VARIABLE = re.compile(r"GIT_(?!(?:PAGER=cat|OPTIONAL_LOCKS=0|TERMINAL_PROMPT=0)(?=[\s;&|]|$))[A-Z]|XDG_CONFIG_HOME")
_QUOTING = re.compile(r"[\\'\"\n]")
_CHANGES_PLACE = re.compile(
    r"(?:env|exec) (?:[^ ]*=[^ ]* )*(?:-|\0).*|find .*-(?:exec|ok)dir.*|cd .*-\w*P.*|set .*(?:P|physical|\0).*"
    r"|shopt .*(?:cd|\0).*|(?:declare|typeset|local) .*[-+]\w*n.*",
    re.DOTALL,
)
"""Commands that change where git runs, how directories are found, or its variables; a computed word is `\\0`."""


@frozen
class GitRun:
    """One git command of a script."""

    text: str
    verb: str
    """Empty where it is computed."""
    places: Places
    """The directories that it may run in, seen from where the script starts."""
    looks: bool


def follow_directory_option(args: list[Arg], places: Places) -> tuple[list[Arg], Places]:
    """The arguments without `-C directory`, and the directories that git goes to."""
    out: list[Arg] = []
    at = 0
    while at < len(args):
        text = args[at].text
        if text == "-C" and at + 1 < len(args) and (to := args[at + 1].text) is not None:
            places = frozenset(join_path(place, to) for place in places) if places is not None and to else places
            at += 2
        elif text in QUIET_GLOBALS:
            out.append(args[at])
            at += 1
        else:
            break
    return [*out, *args[at:]], places


def find_unsteadiness(run: Command, source: str, runs: Sequence[Command]) -> str:
    """Why git may get another directory or other variables than the script was given; empty if it does not."""
    if not _SAME_PLACE.issuperset(run.via):
        return f"{run.via[-1]} may change where git runs"
    for other in runs:
        words = " ".join(word.fixed if word.fixed is not None else "\0" for word in other.words[1:])
        if _CHANGES_PLACE.fullmatch(f"{other.base} {words}"):
            return f"{other.base} may change where git runs, or its variables"
    return "variables of git are named" if _VARIABLE.search(_QUOTING.sub("", source)) else ""
