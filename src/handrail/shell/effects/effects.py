"""Judge a command line: its commands with their tiers, the files that they touch, and doubts.

Pure text: nothing is run and no file is looked at, so patterns stay patterns. Bash and policy ask `find_effects`.

Three tiers. *Read-only* is proven: every command is known to look only, with options that are known, words that are
known where it matters, and no redirection that writes. *Destructive* is what is refused everywhere, and what the list
of harm names. Everything else, an unknown command above all, is *ordinary*: it may do anything, and that alone is no
doubt. A doubt says that the command line may do more than is listed; with one, nothing is read-only.

A variable set in front of a command makes it ordinary unless it only changes how text is shown (`LC_ALL=C sort f`):
which others a program obeys nobody can list. `FOO=bar` on its own is read-only where its name steers no program.

A computed word where a file or an option could stand is a doubt. What a command changes is judged when its draft has
ended; its words only tell what it reaches outside, and what the user's rules name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from handrail.frozen import frozen
from handrail.model import Mention
from handrail.shell.effects.arguments import (
    READ_ONLY,
    Arg,
    CommandTier,
    Directories,
    FileEffect,
    Places,
    Ruling,
    Value,
    Visibility,
    join_path,
    make_argument,
)
from handrail.shell.effects.destinations import (
    PLAIN_WRAPPERS,
    UNKNOWN,
    Destination,
    find_destination,
    steers_network,
)
from handrail.shell.effects.interpret import (
    HARMLESS_BEFORE,
    JUDGED,
    QUIET_DEVICES,
    WRITERS,
    NetworkUse,
    discards_files,
    find_harm,
    find_visibility,
    fork_bomb,
    is_socket,
    judge_git,
    judge_network,
    judge_program,
    judge_wrapper,
    runs_input,
    runs_words,
)
from handrail.shell.effects.refused_commands import find_dangers
from handrail.shell.git.verbs import GitRun, find_unsteadiness, find_verb, follow_directory_option
from handrail.shell.parser.parse import STEERING, isolate_command, parse_script
from handrail.shell.parser.script import HEREDOCS, Command, Redirection, Script, Word
from handrail.shell.parser.wrappers import RUNS_A_FILE

_SEPARATORS = re.compile(r"[\s\"'`(){}\[\],;=:<>|&@\\]+")
_GLUED = re.compile(r"-[A-Za-z]+")
_LONGEST = 4096


def find_mentions(run: Command, args: Sequence[Arg], known: bool, places: Places) -> tuple[Mention, ...]:
    """The paths in the words of a command, seen from where the script starts.

    ``known``: the files that its fixed words name are listed already.
    """
    mentions: dict[Mention, None] = {}
    inputs = [item.target for item in run.redirections if item.operator in (*HEREDOCS, "<<<")]
    words = [*zip(run.words[1:], args, strict=True), *((word, make_argument(word)) for word in inputs)]
    if run.name and "/" in run.name:
        named = (one for one in _place(run.name, False, places) if one.kind == "path")
        mentions |= dict.fromkeys(one._replace(kind="program") for one in named)
    for word, arg in words:
        if arg.values is None:
            mentions |= dict.fromkeys(_find_computed(word))
            if set(word.holds) <= {"brace", "escape", "glob"}:
                text = "".join(part.text if part.kind in ("text", "glob") else "*" for part in word.parts)
                mentions |= dict.fromkeys(_place(text, True, places))
        elif not known:
            for value in arg.values:
                texts = [value.text] if value.glob else _split(value.text)
                mentions |= dict.fromkeys(one for text in texts for one in _place(text, value.glob, places))
    return tuple(mentions)


def _split(word: str) -> list[str]:
    """A word, the parts of it that may be a path, and the text glued to the letters of an option."""
    parts = [word, *_SEPARATORS.split(word)]
    glued = _GLUED.match(word)
    if glued:
        parts += [word[end:] for end in range(2, glued.end() + 1)]
    return [part for part in parts if part and len(part) <= _LONGEST and "\0" not in part]


def _place(text: str, glob: bool, places: Places) -> Iterator[Mention]:
    """A path seen from where the script starts."""
    if not text.startswith(("/", "~")) and places is None:
        yield Mention(text.rpartition("/")[2], "name")
        return
    for place in sorted(places or (".",)):
        yield Mention(join_path(place, text), "pattern" if glob else "path")


def _find_computed(word: Word) -> Iterator[Mention]:
    """The last name of a word with a computed part in front (`$directory/.env`), and a path through `/proc`."""
    fixed = itertools.takewhile(lambda part: part.kind == "text", reversed(word.parts))
    _, slash, name = "".join(part.text for part in reversed(list(fixed))).rpartition("/")
    if slash and name.strip("."):
        yield Mention(name, "name")
    pattern = "".join(part.text if part.kind in ("text", "glob") else "*" for part in word.parts)
    if pattern.startswith("/proc/"):
        yield Mention(pattern, "pattern")


__all__ = ["CommandEffect", "Effects", "FileEffect", "GitRun", "find_effects"]

_BEFORE = re.compile(HARMLESS_BEFORE)
_NAMES_FILES = re.compile(r"LANGUAGE|LANG|LC_[A-Z]+|TERM")
"""Variables whose value, with a slash in it, leads programs to a file with their messages and formats."""
_STEERS = re.compile(STEERING)
_QUIET = re.compile(QUIET_DEVICES)
_SYSTEM_PLACES = ("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/opt/homebrew/bin")
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_PLAIN_BEFORE = (("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_OPTIONAL_LOCKS", "0"), ("GIT_TERMINAL_PROMPT", "0"))
_SEES: tuple[Visibility, ...] = ("names", "tracked", "unhidden", "contents")
"""How much a command shows of a file, the least first."""
_ORDER: dict[CommandTier, int] = {"read_only": 0, "ordinary": 1, "destructive": 2}


@frozen
class CommandEffect:
    """One simple command that would run."""

    text: str
    words: tuple[str, ...]
    """Its words up to the first that is not fixed, for rules about commands."""
    tier: CommandTier
    why: str = ""
    doubt: str = ""
    mentions: tuple[Mention, ...] = ()
    """Paths in the words of an unknown command."""
    undoable: bool = False
    """It may discard files of the workspace, which an undo of its draft restores."""
    script: Script | None = field(default=None, compare=False, repr=False)
    """The command alone, with the commands that it runs."""


@frozen
class Effects:
    """The effects of a command line."""

    commands: tuple[CommandEffect, ...] = ()
    files: tuple[FileEffect, ...] = ()
    doubts: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    """Commands that use the network by nature."""
    possible_network: tuple[str, ...] = ()
    """Commands that run code of the project, and may use the network to fetch what is missing."""
    destinations: Mapping[str, Destination] = field(default_factory=dict)
    """Where each command that uses the network by nature goes, as far as it is known."""
    git: tuple[GitRun, ...] = ()
    only_looks_with_git: bool = False
    """Whether git only looks, and no other program of the line may run git: its settings may be overridden."""
    unread: bool = False
    """There may be commands in it that are not listed here."""
    script: Script = field(default=Script(""), compare=False, repr=False)

    @property
    def tier(self) -> CommandTier:
        """The worst of its commands."""
        tiers: list[CommandTier] = [command.tier for command in self.commands]
        worst: CommandTier = max(tiers, key=lambda tier: _ORDER[tier], default="read_only")
        return "ordinary" if self.doubts and worst == "read_only" else worst


def find_effects(command: str | Script) -> Effects:
    """Judge a command line, or one that was parsed already, by its text alone."""
    script = parse_script(command) if isinstance(command, str) else command
    return _Judge(script.source, script).judge()


class _Judge:
    """Goes through the commands of a script in their order."""

    def __init__(self, source: str, script: Script) -> None:
        self.source = source
        self.script = script
        self.runs = script.runs
        self.doubts = [why for why in script.doubts if not why.endswith(RUNS_A_FILE)]
        self.directories = Directories(source)
        self.files: dict[FileEffect, FileEffect] = {}
        self.network: list[str] = []
        self.possible_network: list[str] = []
        self.destinations: dict[str, Destination] = {}
        self.outward: list[tuple[str, ...]] | None = None
        self.steered: bool | None = None
        """Whether the script sets variables that decide which hosts are contacted."""
        self.git: list[GitRun] = []
        self.unknown = False
        """A command may run any other program."""

    def judge(self) -> Effects:
        if self.script.error is not None:
            self.doubts.append(f"invalid syntax: {self.script.error.message}")
        if _UNSEEN.search(self.source.replace("\r\n", "\n")):
            self.doubts.append("it contains invisible characters")
        refused = {index: danger.why for index, danger in find_dangers(self.script)}
        commands = [self._judge_command(run, refused.get(index, "")) for index, run in enumerate(self.runs)]
        if -1 in refused or fork_bomb(self.source):
            why = refused.get(-1, "it starts itself without end")
            commands.append(CommandEffect(self.source[:200], (), "destructive", why))
        if self.script.stopped:  # what is not read may name any file
            named = [one for text in _split(self.source) for one in _place(text, False, frozenset((".",)))]
            commands.append(CommandEffect(self.source[:200], (), "ordinary", self.doubts[0], mentions=tuple(named)))
        doubts = tuple(dict.fromkeys((*self.doubts, *(command.doubt for command in commands if command.doubt))))
        if doubts:
            if not commands:
                commands.append(CommandEffect(self.source[:200], (), "ordinary", doubts[0], doubts[0]))
            commands = [_demote(command, doubts[0]) for command in commands]
        looks = bool(self.git) and all(run.looks for run in self.git) and not (self.unknown or doubts)
        network = tuple(dict.fromkeys(self.network))
        unread = self.script.stopped or self.script.error is not None
        files = tuple(self.files.values())
        return Effects(
            tuple(commands),
            files,
            doubts,
            network,
            tuple(dict.fromkeys(self.possible_network)),
            self.destinations,
            tuple(self.git),
            looks,
            unread,
            self.script,
        )

    def _judge_command(self, run: Command, refused: str) -> CommandEffect:
        places = self.directories.of(run)
        remote = "ssh" in run.via
        args = given = [make_argument(word) for word in run.words[1:]]
        base = run.base
        text = _get_text(run)
        if base == "git":
            args, places = follow_directory_option(args, places)
        ruling = self._judge_words(run, base, args, places)
        writes = base in WRITERS and not ruling.doubt
        listed = (
            ruling.tier == "read_only"
            or base == "git"
            or (base in JUDGED and base != "find" and not ruling.doubt)
            or writes
        )
        if base == "git":
            self._see_git(run, args, places, ruling)
        elif base and ruling.tier != "read_only" and base not in WRITERS:
            self.unknown = True
        around = self._judge_around(run, base, text)
        ruling = _join_rulings(ruling, around)
        if base:
            use = judge_network(base, args)
            goes = self._find_destination(run, base, args) if use == "certain" else UNKNOWN
            ruling = _join_rulings(ruling, self._uses_network(use, goes, text))
        if remote:
            ruling = replace(ruling, files=())
        sees = find_visibility(base, args)
        if sees != "contents" and (ruling.tier == "read_only" or base == "find"):
            shown = around.files if base == "git" else ()  # git repeats lines of its input
            files = (file if file in shown else replace(file, sees=sees) for file in ruling.files)
            ruling = replace(ruling, files=tuple(files))
        ruling = self._with_files(ruling, places)
        destructive = refused or (find_harm(run, base, args) if base else "") or self._runs_download(run)
        undoable = ruling.tier != "read_only" and discards_files(base or "", args)
        if destructive:
            ruling = replace(ruling, tier="destructive", why=destructive)
        alone = isolate_command(run, text, self.script)
        named = () if remote or ruling.tier == "read_only" else find_mentions(run, given, listed, places)
        return CommandEffect(
            text,
            _get_fixed_words(run),
            ruling.tier,
            ruling.why,
            ruling.doubt,
            named,
            undoable,
            alone,
        )

    def _judge_words(self, run: Command, base: str | None, args: list[Arg], places: Places) -> Ruling:
        if base is None:
            return Ruling(why="its name is computed")  # a doubt of the script already
        if base == "":
            return READ_ONLY
        if not base.isascii():
            return Ruling(why="it is not known", doubt=f"{base} is written with letters that look like others")
        if base in ("cd", "pushd", "popd"):
            return self._change_directory(run, base, args)
        ruling = judge_wrapper(run, base, args) if base in JUDGED else None
        if base == "git":
            ruling = judge_git(args)
            if ruling.tier == "read_only":
                why = find_unsteadiness(run, self.source, self.runs) if places else "git may run in any directory"
                ruling = replace(ruling, tier="ordinary", why=why) if why else ruling
        if ruling is None or base == "find":
            ruling = judge_program(base, args)
        if run.via[-1:] == ("xargs",) and ruling.tier != "read_only" and not ruling.doubt:
            ruling = replace(ruling, doubt=f"xargs takes the arguments of {base} from its input")
        if ruling.tier == "read_only" and not _is_system_program(run):
            return replace(ruling, tier="ordinary", why=f"{run.words[0].source} may be another program of that name")
        return ruling

    def _find_destination(self, run: Command, base: str, args: Sequence[Arg]) -> Destination:
        """Where a command goes; not known where the script may send it elsewhere."""
        if self.steered is None:
            self.steered = bool(self.script.doubts) or steers_network(self.runs)
        if self.steered or not PLAIN_WRAPPERS.issuperset(run.via) or not _is_system_program(run):
            return UNKNOWN
        return find_destination(base, args)

    def _uses_network(self, use: NetworkUse, goes: Destination, text: str) -> Ruling:
        """Note how a command uses the network. This machine's own loopback needs none."""
        if use == "certain" and goes.local and not goes.service:
            self.possible_network.append(text)
            self.destinations.setdefault(text, goes)
            return Ruling(why="it connects to this machine")
        if use == "certain":
            self.network.append(text)
            known = self.destinations.setdefault(text, goes)
            if known != goes:  # the same words in another place
                self.destinations[text] = UNKNOWN
            return Ruling(why="it uses the network")
        if use == "possible":
            self.possible_network.append(text)
        return READ_ONLY if not use else Ruling(why="it runs code of the project, which may use the network")

    def _see_git(self, run: Command, args: Sequence[Arg], places: Places, ruling: Ruling) -> None:
        self.git.append(GitRun(_get_text(run), find_verb(args)[0] or "", places, ruling.tier == "read_only"))

    def _change_directory(self, run: Command, base: str, args: Sequence[Arg]) -> Ruling:
        """`cd` and its like."""
        operands = [arg for arg in args if arg.text not in ("--", "-L")]
        text = operands[0].text if operands else "~"
        if len(operands) > 1 or base == "popd" or (base == "pushd" and not operands) or (text or "")[:1] in ("-", "+"):
            self.directories.go(run, Arg("", None))
            return Ruling(why=f"unknown arguments of {base}", doubt=f"{base} may change to any directory")
        self.directories.go(run, operands[0] if operands else Arg("~", (Value("~", home=True),)))
        return READ_ONLY

    def _judge_around(self, run: Command, base: str | None, text: str) -> Ruling:
        """Judge the assignments and redirections around the words."""
        ruling = READ_ONLY
        for item in run.assignments:
            fixed = item.values[0].fixed if len(item.values) == 1 else None
            if item.name in ("CDPATH", "GLOBIGNORE"):
                ruling = replace(ruling, doubt=f"{item.name} changes what paths mean")
            if run.words and not _BEFORE.fullmatch(item.name) and (item.name, fixed) not in _PLAIN_BEFORE:
                ruling = _join_rulings(ruling, Ruling(why=f"{item.name} may change what {base or 'it'} does"))
            elif _NAMES_FILES.fullmatch(item.name) and (fixed is None or "/" in fixed):
                ruling = _join_rulings(ruling, Ruling(why=f"{item.name} names a file that decides what programs print"))
            elif not run.words and _STEERS.fullmatch(item.name):
                ruling = _join_rulings(ruling, Ruling(why=f"{item.name} changes what other commands do"))
        for name in run.indirect_sets:
            if _STEERS.fullmatch(name):
                ruling = _join_rulings(ruling, Ruling(why=f"{name} changes what other commands do"))
        for redirection in run.redirections:
            ruling = _join_rulings(ruling, self._judge_redirection(redirection, text))
        return ruling

    def _judge_redirection(self, item: Redirection, text: str) -> Ruling:
        if item.copies or item.operator in ("<<", "<<-", "<<<"):
            return READ_ONLY
        if item.operator in ("<&", ">&") and item.target.fixed is None:
            return Ruling(why="a descriptor is computed", doubt="a redirection is computed")
        if item.target.holds == ("process",):
            return READ_ONLY
        target = make_argument(item.target)
        if target.values is None:
            doubt = "the file of a redirection is computed"
            return Ruling(why=doubt, doubt=doubt)
        if any(is_socket(value.text) for value in target.values):
            self.network.append(text)
            return Ruling(why="a redirection uses the network")
        if item.operator == "<":
            return Ruling("read_only", files=tuple(target.files("read")))
        if not item.writes or (target.text is not None and _QUIET.fullmatch(target.text)):
            return READ_ONLY
        reads = target.files("read") if item.reads else []
        return Ruling(why=f"it writes to {item.target.source}", files=(*reads, *target.files("write")))

    def _with_files(self, ruling: Ruling, places: Places) -> Ruling:
        """The files as they are seen from where the script starts."""
        for file in ruling.files:
            if file.path.startswith(("/", "~")):
                self._add(file)
            elif places is None:
                doubt = "its working directory is unknown"
                tier: CommandTier = "destructive" if ruling.tier == "destructive" else "ordinary"
                ruling = replace(ruling, doubt=ruling.doubt or doubt, tier=tier, why=ruling.why or doubt)
            else:
                for place in sorted(places):
                    self._add(replace(file, path=join_path(place, file.path)))
        return ruling

    def _add(self, file: FileEffect) -> None:
        """A file once, with the most that any command sees of it."""
        known = self.files.setdefault(file, file)
        self.files[file] = replace(known, sees=max(known.sees, file.sees, key=_SEES.index))

    def _runs_download(self, run: Command) -> str:
        """`curl x | sh`, `bash <(curl x)`, `eval "$(curl x)"`."""
        piped = "piped" in run.within and runs_input(run)
        substitutes = any("command" in word.holds or "process" in word.holds for word in run.words)
        if not piped and not (substitutes and runs_words(run)):
            return ""
        if self.outward is None:
            self.outward = [
                other.within
                for other in self.runs
                if other.base and judge_network(other.base, [make_argument(word) for word in other.words[1:]])
            ]
        places = ("pipeline",) if piped else ("substitution", "process")
        near = any(kind in places for kinds in self.outward for kind in kinds)
        return "it runs code from the network" if near else ""


def _is_system_program(run: Command) -> bool:
    """Whether a program is called by its name alone, or by a path of the system."""
    name = run.name
    return name is not None and ("/" not in name or name.rpartition("/")[0] in _SYSTEM_PLACES)


def _join_rulings(one: Ruling, other: Ruling) -> Ruling:
    """Both together."""
    first = one if _ORDER[one.tier] >= _ORDER[other.tier] else other
    return Ruling(first.tier, first.why, one.doubt or other.doubt, (*one.files, *other.files))


def _demote(command: CommandEffect, doubt: str) -> CommandEffect:
    return replace(command, tier="ordinary", why=doubt) if command.tier == "read_only" else command


def _get_text(run: Command) -> str:
    """The command as it is written, assignments and redirections with it."""
    values = [f"{item.name}={' '.join(value.source for value in item.values)}" for item in run.assignments]
    words = [word.source for word in run.words]
    redirections = [
        f"{item.descriptor}{item.operator}{item.target.source}" for item in run.redirections if not item.feeds
    ]
    return " ".join((*values, *words, *redirections))


def _get_fixed_words(run: Command) -> tuple[str, ...]:
    out: list[str] = []
    for word in run.words:
        fixed = word.fixed
        if fixed is None:
            break
        out.append(fixed)
    return tuple(out)
