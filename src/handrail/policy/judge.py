"""The policy of rules: judge every access, and return the strictest verdict with its rule, place and reason.

In this order, for one access:

    1. a deny rule of any file, and ignore files           nothing overrides these
    2. a built-in rule that denies: secrets                unless a rule has the full name of the file
    3. an ask rule of any file; a built-in rule that asks  nothing overrides these
    4. an allow rule of a trusted file
    5. the mode

Two kinds of commands are judged before 4 and 5: those with unknown effects, and destructive ones, which only a rule
with the exact command allows.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

from handrail.model import LENT, Access, Action, Decision, Mention, Verdict
from handrail.policy.files import PolicyFile
from handrail.policy.guards import BuiltInPaths, IgnoreFiles, SecretFiles, load_built_in_rules
from handrail.policy.hosts import display_hosts, find_mentioned_hosts, list_reached_hosts, strip_usual_port
from handrail.policy.modes import Defaults, Mode, get_defaults, load_defaults
from handrail.policy.paths import (
    FOREIGN,
    HardLinks,
    NameTest,
    PathPattern,
    PathSet,
    escape_glob,
    goes_through_process,
    is_within,
    join_globs,
    list_globs_to_hide,
    pass_every_name,
)
from handrail.policy.rules import (
    FILE_ACTIONS,
    STRICT,
    WHY,
    Rule,
    describe_rule,
    get_plain_words,
    parse_access,
    take_stricter,
)
from handrail.text.display import escape
from handrail.text.globs import Glob
from handrail.workspace import Root

if TYPE_CHECKING:
    from handrail.policy.protected import FirstIgnores
    from handrail.policy.shell_patterns import ShellPatterns
    from handrail.shell.git.tracked_files import TrackedFiles

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/stdout", "/dev/stderr", "/dev/tty")
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - named to be judged, not used
_MOST_MATCHED = 100
"""Files that a command sees because they match the pattern of a rule."""
_TOOLS = {"read": "Read", "write": "Edit", "delete": "Delete"}
_ALLOWED = Verdict("allow")
_DEFERRED = Verdict("allow", "it runs in a draft and is checked after it runs")


def _get_kind(access: Access) -> str:
    """The mode's name for a command, a use of the network or a call."""
    if access.action == "network":
        return "fetch" if access.fetches else "network"
    if access.action == "call":
        return "call"
    if access.doubt:
        return "doubt"
    if access.tier == "destructive" and access.undoable:  # an undo of its draft restores the files
        return "ordinary" if access.deferred else "discard"
    return access.tier or "ordinary"


def _list_parents(path: str) -> Iterator[str]:
    """A path and the directories above it."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _search_files(readable: Callable[[str], bool]) -> ShellPatterns:
    from handrail.policy.shell_patterns import ShellPatterns  # slow to import, and only needed for commands

    return ShellPatterns(readable)


class RuleSet:
    """The rules of one tier, sorted by action."""

    def __init__(self, rules: Sequence[Rule], roots: Sequence[str], home: str, *, deep: bool, fold: bool) -> None:
        self.all = rules
        self._wide = deep
        self.home = roots[0] if roots else "/"
        self._files: dict[str, tuple[list[Rule], Rule | None, PathSet | None]] = {}
        for action in FILE_ACTIONS:
            mine = [rule for rule in rules if action in rule.actions]
            with_paths = [rule for rule in mine if rule.paths]
            every = next((rule for rule in mine if not rule.paths), None)
            paths = PathSet([rule.paths for rule in with_paths], roots, home, deep=deep, fold=fold)
            self._files[action] = with_paths, every, paths or None
        self._run = [rule for rule in rules if "run" in rule.actions]
        self._network = [rule for rule in rules if "network" in rule.actions]
        self._call = [rule for rule in rules if "call" in rule.actions]

    def find(self, access: Access, filtered: Callable[[], bool] = lambda: False) -> Rule | None:
        """The first rule that speaks of the access. ``filtered``: a proxy holds what uses it to the allowed hosts."""
        if access.action == "run":
            place = access.place or self.home
            return next((rule for rule in self._run if rule.speaks_of_command(parse_access(access), place)), None)
        if access.action == "network":
            return self._of_hosts(access, filtered)
        if access.action == "call":
            return next((rule for rule in self._call if rule.speaks_of_tool(access.target)), None)
        return self.file(access.action, access.path or access.target)

    @property
    def names_hosts(self) -> bool:
        """Whether rules are about single hosts, and none is about the whole network."""
        return all(rule.host for rule in self._network) and any(" " not in rule.host for rule in self._network)

    def spells_out(self, access: Access) -> Rule | None:
        """The rule about this very command, as an answer for good writes it down."""
        return next((rule for rule in self._network if rule.host == escape_glob(access.target)), None)

    def _of_hosts(self, access: Access, filtered: Callable[[], bool]) -> Rule | None:
        """A refusal holds for any host that is mentioned; an allowance must cover all that are reached."""
        if self._wide:
            if not self._network:
                return None
            hosts = list(find_mentioned_hosts(access, parse_access(access) if access.by_command else None))
            return next((rule for rule in self._network if any(map(rule.speaks_of_host, hosts))), None)
        if every := next((rule for rule in self._network if not rule.host), None):
            return every
        reached = access.hosts.split() if access.proxied and filtered() else list_reached_hosts(access)
        matching = [next((rule for rule in self._network if rule.speaks_of_host(one)), None) for one in reached]
        return matching[0] if matching and all(matching) else self.spells_out(access)

    def suspects(self, action: Action, directory: str) -> NameTest | None:
        """A test that every name in a directory passes which a rule may speak of."""
        _, every, paths = self._files[action]
        return pass_every_name if every else paths.suspects(directory) if paths else None

    def file(self, action: Action, path: str) -> Rule | None:
        rules, every, paths = self._files[action]
        if paths and (numbers := paths.find(path)):
            return rules[numbers[0]]
        return every


class RulePolicy:
    """Judges by the rules of files, the built-in rules, and the mode."""

    def __init__(
        self,
        roots: Sequence[Root],
        mode: Mode = "ask",
        files: Sequence[PolicyFile] = (),
        confined: Callable[[], bool] = lambda: False,
        home: str | None = None,
        masked: Callable[[], bool] = lambda: False,
        offline: Callable[[], bool] = lambda: False,
        loopback: Callable[[], bool] = lambda: True,
        filtered: Callable[[], bool] = lambda: False,
        tracked: TrackedFiles | None = None,
        ignores: FirstIgnores | None = None,
    ) -> None:
        """``offline``: a sandbox cuts the network. ``loopback``: commands reach a loopback there.

        ``filtered``: they can have a proxy there which reaches allowed hosts alone. ``tracked``: the files that git
        tracks; by default nothing is remembered of them for later sessions. ``ignores``: what git ignored when the
        session began; by default now.
        """
        own = [root for root in roots if not root.alias]
        self._roots = [os.path.realpath(root.path) for root in own]
        self._own_output = [os.path.realpath(root.path) for root in roots if root.alias]
        self._writable = [os.path.realpath(root.path) for root in own if root.writable]
        self._home = os.path.realpath(home or os.path.expanduser("~"))
        self._confined = confined
        self._masked = masked
        self._offline = offline
        self._loopback = loopback
        self._filtered = filtered
        self.mode = mode
        self.files = tuple(files)
        self._defaults: Defaults = get_defaults(mode)
        locked = any(file.locked for file in files)
        every = [rule for file in files for rule in file.rules]
        rules = [rule for rule in every if not rule.lends]
        self._locked = locked
        self._lending = [rule for rule in every if rule.lends and rule.loosens and (rule.locked or not locked)]
        allows = [rule for rule in rules if rule.tier == "allow"]
        counted = [rule for rule in allows if rule.loosens and (rule.locked or not locked)]
        exact = [r for r in rules if r.exact and r.tier != "deny" and r.loosens and (r.locked or not locked)]
        self._deny = self._set([rule for rule in rules if rule.tier == "deny"])
        self._ask = self._set([rule for rule in rules if rule.tier == "ask"])
        self._allow = self._set([] if self._defaults.fixed else counted, deep=False)
        self._opening = self._set(exact, deep=False)
        self._idle = self._set([rule for rule in allows if rule not in counted], deep=False)
        self._built_in = BuiltInPaths(self._roots, self._home, tracked, ignores)
        self._commands = [rule for rule in load_built_in_rules() if rule.command]
        self._ignored = IgnoreFiles(self._roots)
        self._deny_writes = any("write" in rule.actions and rule.paths for rule in self._deny.all)
        self._guarded_writes = any("write" in rule.actions for rule in (*self._deny.all, *self._ask.all))

    # Only needed for commands.

    @cached_property
    def _reach(self) -> ShellPatterns:
        return _search_files(self._is_readable_name)

    @cached_property
    def _hard_links(self) -> HardLinks:
        return HardLinks(lambda: [*self._list_unreadable_names(), *self.credentials()])

    @cached_property
    def _usual_trees(self) -> list[str]:
        """The session's directories, and those of the system and of toolchains, which commands read in every mode."""
        from handrail.shell.sandbox.visible import list_visible

        return list_visible(load_defaults()["commands"]["system"], self._roots, self._home, os.environ)

    @cached_property
    def _real_usual_trees(self) -> list[str]:
        return [os.path.realpath(tree) for tree in self._usual_trees]

    def visible_trees(self) -> list[str] | None:
        """The only trees that a command sees about which nobody was asked; None if the mode lets it read all."""
        if self._defaults.tiers["outside_read"] == "allow":
            return None
        return [*self._usual_trees, *self._list_allowed_places()]

    def _list_allowed_places(self) -> list[str]:
        """Paths outside of the workspace that rules allow to read."""
        places: list[str] = []
        for rule in self._allow.all:
            if "read" in rule.actions and not any(pattern.except_ for pattern in rule.paths):
                for pattern in rule.paths:
                    whole = PathPattern(pattern.text.removesuffix("**")) if pattern.text.endswith("/**") else pattern
                    place = whole.place(self._home)
                    if place:
                        places.append(place)
                    elif pattern.text.startswith(("/", "~/")):
                        places += self._reach.matches(*self._start(pattern.text))[0][:_MOST_MATCHED]
        return places

    @cached_property
    def _secret_files(self) -> SecretFiles:
        """Files that may not be read unless git tracks them, which changes with every commit."""
        built_in = self._built_in
        readable = lambda path: not built_in.has_secret_name(path) and self._is_readable_name(path)  # noqa: E731
        key = repr((self.mode, self._home, self._deny.all, self._ask.all, self._allow.all, self._opening.all))
        return SecretFiles(self._roots, built_in, self.suspect_names, readable, key)

    @cached_property
    def _removing(self) -> ShellPatterns:
        return _search_files(lambda path: self._find_refusal(Access("delete", path, path)) is None)

    @cached_property
    def _writing(self) -> ShellPatterns:
        return _search_files(lambda path: not (self._deny.file("write", path) or self._ask.file("write", path)))

    @cached_property
    def _temporary(self) -> list[str]:
        """The directories for temporary files."""
        import tempfile  # slow to import

        return [os.path.realpath(place) for place in (*_TEMPORARY, tempfile.gettempdir())]

    def _set(self, rules: Sequence[Rule], *, deep: bool = True) -> RuleSet:
        # Where a disk may take either case for the same name, a refusal must too.
        return RuleSet(rules, self._roots, self._home, deep=deep, fold=deep and sys.platform == "darwin")

    @property
    def hides(self) -> Sequence[str]:
        """Return globs of files that may not be read, for a search; other files are judged when they are found."""
        root = self._roots[0] if len(self._roots) == 1 else None
        ignored = self._ignored.hides()
        for rule in (*self._deny.all, *self._ask.all):
            if "read" in rule.actions:
                ignored += list_globs_to_hide(rule.paths, root) if rule.paths else ["**"]
        opened = {name for rule in self._opening.all for path in rule.paths for name in path.text.split("/")}
        opened |= set(self._built_in.list_tracked_names())
        for rule in load_built_in_rules():
            if "read" in rule.actions:
                globs = list_globs_to_hide(rule.paths, root)
                ignored += [glob for glob in globs if not any(map(Glob(glob, hidden=True).match, opened))]
        return join_globs(ignored)

    def asking(self) -> contextlib.AbstractContextManager[None]:
        """For many questions one after the other: git is started once for them."""
        return self._built_in.reading_git()

    def readable(self, path: str) -> bool:
        """Whether a search may show this real path: it is allowed to be read, and nobody needs to be asked."""
        return self._is_readable_name(path) and not self.is_other_name(path) and not self._holds_secret(path)

    def is_other_name(self, path: str) -> bool:
        """Whether a file is a secret by another name on the disk."""
        return bool(self._hard_links.find(path))

    def _holds_secret(self, path: str) -> bool:
        return self._built_in.holds_secret(path) and not self._opening.file("read", path)

    def _is_readable_name(self, path: str) -> bool:
        secret = self._built_in.is_secret(path)
        if secret and not self._opening.file("read", path):  # most that are refused
            return False
        if secret or self._ask.file("read", path) or self._deny.file("read", path):
            return self._judge_file(Access("read", path, path)).decision == "allow"
        return not self._ignored.find(path)

    def suspect_names(self, directory: str, has_ignore_file: bool) -> NameTest | None:
        """A test for names in a real directory: those that fail it are `readable`. None: all are.

        ``has_ignore_file``: whether one of `POLICY_NAMES` may stand in that directory.
        """
        if self._ignored.apply_in(directory, has_ignore_file):
            return pass_every_name
        secrets = self._built_in.suspect_secrets(directory)
        rules = self._ask.suspects("read", directory), self._deny.suspects("read", directory)
        tests = [test for test in (secrets, *rules) if test]
        return (lambda name: any(test(name) for test in tests)) if len(tests) > 1 else tests[0] if tests else None

    def judge(self, accesses: Sequence[Access]) -> Verdict:
        """The strictest verdict over all touches; `allow` has a line for each touch that needs one."""
        strictest = _ALLOWED
        lines: list[str] = []
        for access in accesses:
            verdict = self.verdict(access)
            if verdict.decision != "allow":
                lines.append(verdict.allow)
            if strictest is _ALLOWED or STRICT[verdict.decision] > STRICT[strictest.decision]:
                strictest = verdict
        if len(lines) < 2:
            return strictest
        every = "\n".join(dict.fromkeys(lines)) if all(lines) else ""
        return Verdict(strictest.decision, strictest.rule, strictest.why, strictest.source, every)

    def filters(self, accesses: Sequence[Access]) -> bool:
        """Whether a command gets a proxy to the hosts that rules allow, instead of the network.

        So it is where every program in it uses a proxy, or may only fetch what a build needs.
        """
        out = [access for access in accesses if access.action == "network"]
        if self._defaults.fixed or not self._allow.names_hosts or not self._filtered():
            return False
        if not all(access.proxied or (access.possible and not access.hosts) for access in out):
            return False
        if any(self._allow.spells_out(access) for access in out):
            return False
        return all(self.verdict(access).decision == "allow" for access in out)

    def allows_host(self, host: str) -> bool:
        """Whether a rule allows a host, given as `host:port`."""
        verdict = self.verdict(Access("network", host))
        return verdict.decision == "allow" and bool(verdict.source)

    def remember(self, lines: Sequence[str], place: str = "") -> str:
        """Write down rules that a person has approved for good; commands for the place they run in. Returns the file.

        Raises `PolicyError`.
        """
        from handrail.policy.approved_rules import remember  # only where somebody is asked

        return remember(lines, os.environ, place or (self._roots[0] if self._roots else "/"))

    def verdict(self, access: Access) -> Verdict:
        """Judge one access."""
        verdict = self._judge_file(access) if access.action in FILE_ACTIONS else self._judge_other(access)
        if verdict.decision != "deny" and (access.glob or access.below):
            verdict = take_stricter(verdict, self._judge_reached(access))
        if access.by_command and access.action == "read" and goes_through_process(access.target, glob=access.glob):
            verdict = take_stricter(verdict, self._judge_process_path(access))
        if access.mentions and verdict.decision != "deny" and (named := self._judge_mentions(access)):
            both = verdict.decision == named.decision == "ask"
            lines = f"{verdict.allow}\n{named.allow}" if verdict.allow and named.allow else ""
            verdict = replace(named, allow=lines) if both else take_stricter(verdict, named)
        if self.mode == "deny-asks" and verdict.decision == "ask":
            return Verdict(
                "deny", verdict.rule, f"{verdict.why}; this mode does not ask", verdict.source, verdict.allow
            )
        return verdict

    def _judge_file(self, access: Access) -> Verdict:
        refused = self._find_refusal(access)
        if access.path != access.target and (other := self._as_named(access)):
            both = [verdict for verdict in (refused, self._find_refusal(other)) if verdict]
            refused = max(both, key=lambda verdict: STRICT[verdict.decision], default=None)
        what = self._place(access)
        if (
            self._defaults.fixed
            and self._defaults.tiers[what] == "deny"
            and (refused is None or refused.decision == "ask")
        ):
            return self._judge_by_mode(what, access)
        if refused:
            is_built_in = not refused.source and not self._defaults.fixed
            return self._judge_lending(access) if access.lent_to and is_built_in else refused
        rule = self._allow.file(access.action, access.path or access.target)
        if rule:
            return describe_rule(rule, access)
        return _DEFERRED if access.deferred and not self._defaults.fixed else self._judge_by_mode(what, access)

    def _judge_lending(self, access: Access) -> Verdict:
        """Judge a hidden file that a command asks to see: a rule about both allows it, or a person."""
        place = os.path.realpath(os.path.join(self._allow.home, access.place))
        run = Access("run", access.lent_to, place=place, script=access.script)
        for rule in self._lending:
            paths = PathSet([rule.paths], self._roots, self._home, deep=False)
            if rule.speaks_of_command(parse_access(run), place) and paths.find(access.path):
                return describe_rule(rule, access)
        file, command = self._suggest_rule(replace(access, lent_to="")), self._suggest_rule(run)
        line = f"{file} for {command.removeprefix('allow ')}" if file and command else ""
        return Verdict("ask", LENT, f"`{escape(access.lent_to)}` asks to see {access.why}, hidden as secret", "", line)

    def _judge_reached(self, access: Access) -> Verdict | None:
        """Judge the files that a command reaches without naming them; None if that changes nothing."""
        paths, whole = [access.path], True
        if access.glob:
            paths, whole = self._reach.matches(*self._start(access.target))
        worst = _ALLOWED
        for path in paths if access.passed else ():
            if odd := self._reach.find_odd_name(path, split=access.passed == "words"):
                why = f"{escape(self._shorten_path(odd))} would not reach the command as the name of one file"
                worst = take_stricter(worst, Verdict("ask", "hidden files", why))
        if access.action == "read" and access.sees == "names":
            return worst
        for path in paths if access.links else ():
            worst = take_stricter(worst, self._judge_links(access, os.path.realpath(path)))
        if self._is_masked(access):
            for path in paths if access.glob and self._defaults.tiers["outside_read"] != "allow" else ():
                worst = take_stricter(worst, self._judge_place(self._shorten_path(path), os.path.realpath(path)))
            return worst
        for path in paths:
            real = os.path.realpath(path)
            for one in dict.fromkeys((path, real)) if access.glob else ():
                worst = take_stricter(
                    worst, self._judge_file(replace(access, target=self._shorten_path(path), path=one, glob=False))
                )
            if access.below and access.action == "read":
                matches = self._reach.below(real, hidden=access.sees == "contents")
                whole = whole and matches.whole
                worst = take_stricter(
                    worst, self._holds(access, self._shorten_path(matches.path)) if matches.path else None
                )
            elif access.below:
                looked, verdict = self._judge_below(access, real)
                whole = whole and looked
                worst = take_stricter(worst, verdict)
            if worst.decision == "deny":
                break
        if worst is not _ALLOWED or whole:
            return worst
        why = f"{escape(access.target)} matches more than {self._reach.most} files: a secret may be among them"
        return Verdict("ask", "hidden files", why)

    def _judge_links(self, access: Access, directory: str) -> Verdict | None:
        """Judge the files that links below a directory lead to; None if all may be read."""
        if self._masked() and self._defaults.tiers["outside_read"] == "allow":
            return None
        worst = _ALLOWED

        def enter(link: str, real: str) -> bool:
            nonlocal worst
            if access.links == "files" and os.path.isdir(real):
                return False
            worst = take_stricter(worst, self._judge_place(self._shorten_path(link), real))
            if access.links == "all" and not self._masked() and (inner := self._reach.below(real).path):
                worst = take_stricter(worst, self._holds(access, self._shorten_path(inner)))
            return worst is _ALLOWED

        if not self._reach.follow_links(directory, enter):
            why = f"{escape(access.target)} holds more than {self._reach.most} files: a link may lead outside"
            worst = take_stricter(worst, Verdict("ask", "hidden files", why))
        return None if worst is _ALLOWED else worst

    def _judge_place(self, name: str, real: str) -> Verdict:
        """Judge the file that a name leads to by its place."""
        access = Access("read", name, real, by_command=True)
        return self._judge_by_mode(self._place(access), access)

    def _judge_process_path(self, access: Access) -> Verdict | None:
        if self._masked():
            return None
        why = f"{escape(access.target)} leads through the directory of a process: a secret may be there"
        return Verdict("ask", "hidden files", why)

    def _judge_mentions(self, access: Access) -> Verdict | None:
        """Judge the files that the words of an unknown program name: nobody knows what it does with them.

        A rule of the user denies; about a secret a person is asked, because many programs only use it.
        """
        worst = self._judge_mentioned_places(access) if access.deferred else None
        if self._masked():
            return worst
        for mention in access.mentions:
            if mention.kind == "program":
                continue
            if goes_through_process(mention.path, glob=mention.kind == "pattern"):
                return self._judge_process_path(replace(access, target=mention.path))
            for path in self._find_mentioned_paths(mention):
                refused = self._find_refusal(Access("read", mention.path, path))
                if refused is None:
                    continue
                decision: Decision = "deny" if refused.decision == "deny" and refused.source else "ask"
                name = self._shorten_path(path)
                why = f"`{escape(access.target)}` names {escape(name)}, which may not be read"
                verdict = Verdict(decision, refused.rule, why, refused.source, refused.allow)
                worst = take_stricter(worst, verdict) if worst else verdict
        return worst

    def _judge_mentioned_places(self, access: Access) -> Verdict | None:
        """Judge by their place the files that a command in a draft names: it would not see those outside."""
        if self._defaults.tiers["outside_read"] == "allow":
            return None
        for mention in access.mentions:
            for path in self._find_mentioned_paths(mention) if mention.kind != "name" else ():
                real = os.path.realpath(path)
                if not os.path.lexists(path) or any(is_within(real, root) for root in self._roots):
                    continue
                if not self._allow.file("read", real):
                    verdict = self._judge_place(self._shorten_path(real), real)
                    if verdict.decision != "allow":
                        return verdict
        return None

    def _find_mentioned_paths(self, mention: Mention) -> list[str]:
        """The real paths that a mention may mean; none for a file that does not exist."""
        if mention.kind == "pattern":
            return [os.path.realpath(path) for path in self._reach.matches(*self._start(mention.path))[0]]
        path = os.path.join(*self._roots[:1], os.path.expanduser(mention.path))
        if mention.kind == "name":
            return [path]
        return list(dict.fromkeys((os.path.normpath(path), os.path.realpath(path)))) if os.path.lexists(path) else []

    def _judge_below(self, access: Access, directory: str) -> tuple[bool, Verdict | None]:
        """Return the strictest verdict on the contents of a deleted or changed directory, and whether all were judged.

        Deleting a directory deletes all its contents. Writing to one may leave most of it unchanged: it is asked about
        only if a rule of a file denies or asks about a change in it.
        """
        delete = access.action == "delete"
        if (not delete and not self._guarded_writes) or os.path.basename(directory) in FOREIGN:
            return True, None
        worst = None
        for path in (self._removing if delete else self._writing).all_below(directory):
            if not path.whole:
                return not delete, worst
            one = Access(access.action, self._shorten_path(path.path), path.path, deferred=access.deferred)
            verdict = self._find_refusal(one) if delete else self._may_change(access, one)
            if verdict and (worst is None or STRICT[verdict.decision] > STRICT[worst.decision]):
                worst = verdict
            if worst and (worst.decision == "deny" or not delete):
                break
        return True, worst

    def _may_change(self, access: Access, inner: Access) -> Verdict:
        rule = self._deny.find(inner) or self._ask.find(inner)
        why = f"`{escape(access.target)}` would be changed with what is in it, and {escape(inner.target)} is not to be"
        return Verdict("ask", rule.text if rule else "", why, rule.source if rule else "")

    def _start(self, target: str) -> tuple[str, str]:
        """Where a pattern begins, and the rest of it: a directory of that name is there, whatever signs are in it."""
        first, _, rest = target.partition("/")
        if target.startswith("~") and os.path.expanduser(first) != first:
            return os.path.expanduser(first), rest
        return ("/" if target.startswith("/") or not self._roots else self._roots[0]), target

    def _is_masked(self, access: Access) -> bool:
        """Whether the sandbox hides unreadable files from the command."""
        return access.action == "read" and self._masked()

    def _holds(self, access: Access, inner: str) -> Verdict:
        why = f"{escape(access.target)} contains {escape(inner)}, which is protected"
        return Verdict("ask", "hidden files", why)

    def _shorten_path(self, path: str) -> str:
        root = next((root for root in self._roots if path.startswith(root.rstrip("/") + "/")), None)
        return os.path.relpath(path, root) if root else path

    def unreadable(self) -> list[str]:
        """List files that may not be read, for the sandbox to hide.

        First files that a deny rule names in full, anywhere; then files in the workspace, the nearest first; then other
        names of these.
        """
        names = self._list_unreadable_names()
        return [*names, *self._hard_links.other_names(self._secret_files.directories, [*names, *self.credentials()])]

    def _list_unreadable_names(self) -> list[str]:
        paths, hidden = self.denied_by_name(), dict[str, None]()
        with self._built_in.reading_git():
            for here, names in self._secret_files.find_names().items():
                if not any(above in hidden for above in _list_parents(here)):
                    whole = (os.path.join(here, name) for name in names)
                    hidden |= dict.fromkeys(one for path in whole for one in self._list_names(path))
            hidden |= dict.fromkeys(path for path in self._secret_files.find_contents() if self._holds_secret(path))
        return [*paths, *hidden]

    def _list_names(self, path: str) -> list[str]:
        """What may not be read of an entry: itself, and for a link the path that it leads to, unless git tracks it."""
        real = os.path.realpath(path) if os.path.islink(path) else path
        names = [] if self._is_readable_name(path) else [path]
        if real != path and (not self._is_readable_name(real) or (names and not self._built_in.is_public(real))):
            names.append(real)
        return names

    def has_secret_name(self, path: str) -> bool:
        """Whether a file is a secret by its name, unless git tracks it."""
        return self._built_in.has_secret_name(path)

    def looks_secret(self, path: str, source: str | bytes) -> bool:
        """Whether a file with such contents is hidden from a model that does not know them."""
        return self._built_in.looks_secret(path, source)

    @property
    def searched_all(self) -> bool:
        """Whether the last search for files that may not be read reached all directories of the workspace."""
        return self._secret_files.complete

    def protects(self, path: str, *, created: bool = False) -> bool:
        """Whether a command may change this only if a person has approved it: it is protected, or a rule denies it.

        ``created``: the entry at the top of the workspace is new, though it exists by now.
        """
        if created and self._built_in.protected.is_new_entry(path, created=True):
            return True
        return self._built_in.protects(path) or bool(self._deny_writes and self._deny.file("write", path))

    def credentials(self) -> list[str]:
        """Secrets of the user and of the system, outside of the workspace: what programs log in with.

        Those of the home directory by its entries, and what the built-in rules name in a place of its own.
        """
        paths: list[str] = []
        with contextlib.suppress(OSError), os.scandir(self._home) as entries:
            paths += [entry.path for entry in entries if self._built_in.is_secret(entry.path)]
        paths += [place for place in self._built_in.secret_places if os.path.lexists(place)]
        return [path for path in paths if not self._is_readable_name(path)]

    def denied_by_name(self) -> list[str]:
        """List existing files that a deny rule names in full, anywhere."""
        rules = [rule for rule in self._deny.all if "read" in rule.actions and not any(p.except_ for p in rule.paths)]
        named = (pattern.place(self._home) for rule in rules for pattern in rule.paths)
        return [path for path in named if path and os.path.lexists(path)]

    def _find_refusal(self, access: Access) -> Verdict | None:
        """Return verdicts that no allow rule and no mode can change: denies, built-in rules and asks."""
        action, path = access.action, access.path or access.target
        rule = self._deny.file(action, path)
        if rule is None and action == "write":  # a change shows what stands around it
            rule = self._deny.file("read", path)
        if rule:
            return describe_rule(rule, access)
        if action != "delete" and (file := self._ignored.find(path)):
            return Verdict("deny", "ignore file", f"{escape(access.target)} is hidden by an ignore file", escape(file))
        guard = self._built_in.find(action, path)
        if guard is None and action == "write" and os.path.lexists(path):  # a change shows what stands around it
            guard = self._built_in.find("read", path)
        if guard and guard.tier == "deny" and not (access.observed and not self._defaults.fixed):
            if self._opening.file(action, path) is None:
                return Verdict(
                    "deny", guard.text, f"{escape(access.target)}: {guard.why}", "", self._suggest_rule(access)
                )
            guard = next((rule for rule in self._built_in.all(action, path) if rule.tier == "ask"), None)
        if guard is None and action != "delete" and (secret := self._hard_links.find(path)):
            name = escape(self._shorten_path(secret))
            return Verdict("deny", "hidden files", f"{escape(access.target)} is another name of {name} on the disk")
        if guard is None and action != "delete" and not access.observed and self._holds_secret(path):
            why = f"{escape(access.target)} holds a private key or an access token"
            return Verdict("deny", "secrets", why, "", self._suggest_rule(access))
        rule = self._ask.file(action, path)
        if rule:
            return describe_rule(rule, access)
        if access.deferred or self._is_private(access):  # in a draft the change itself is judged, and shown
            return None
        if guard:
            return Verdict("ask", guard.text, f"{escape(access.target)}: {guard.why}")
        if action == "delete" and any(is_within(path, root) for root in self._roots):
            return Verdict("ask", "workspace", f"{escape(access.target)} is the workspace itself, or contains it")
        return None

    def _as_named(self, access: Access) -> Access | None:
        """Return the access by its given name, if it is a link: a secret may have a harmless real name."""
        named, real = access.target, access.path
        if not real:
            return None
        if not named.startswith("/"):
            if access.by_command:  # from which directory is not known here: only the last name is
                last = os.path.basename(named)
                named = f"{os.path.dirname(real)}/{last}" if last.strip(".") else real
            else:
                named = os.path.join(*self._roots[:1], named)
        if named == real:  # nearly always
            return None
        named = os.path.normpath(named)
        return replace(access, path=named) if named != real else None

    def _place(self, access: Access) -> str:
        """Return the mode's name for the access: the action, or the place of a command's effect."""
        path = access.path or access.target
        if access.observed or access.renamed or (access.action == "delete" and not access.by_command):
            return "write"  # a deletion too: a draft can be undone, and a tool deletes only what it has saved
        if access.how == "moved" and any(is_within(root, path) for root in self._writable):
            return "write"
        if access.by_command and access.action == "read" and access.sees != "names":
            return "read" if self._is_usual_read(path) else "outside_read"
        if not access.by_command or access.action == "read" or any(is_within(root, path) for root in self._writable):
            return access.action
        if access.action == "write" and access.target in _DEVICES:
            return "read"  # nothing is changed
        return "temporary" if any(path != top and is_within(top, path) for top in self._temporary) else "outside"

    def _is_usual_read(self, path: str) -> bool:
        """Whether a command reads this without a question: it is of the session, or of the system."""
        if self._defaults.tiers["outside_read"] == "allow":
            return True
        if self._masked() and is_within(os.path.realpath(_TEMPORARY[0]), path):
            return True
        return any(is_within(place, path) for place in (*self._real_usual_trees, *self._own_output))

    def _is_private(self, access: Access) -> bool:
        """Whether a command changes this in its own directory for temporary files, which nobody else sees."""
        path = access.path or access.target
        return (
            access.by_command
            and self._masked()
            and is_within(os.path.realpath(_TEMPORARY[0]), path)
            and not any(is_within(root, path) or is_within(path, root) for root in self._writable)
        )

    def _judge_other(self, access: Access) -> Verdict:
        if (
            access.action == "network"
            and access.possible
            and (not access.hosts or self._loopback())
            and self._offline()
        ):
            return self._cut_off(access)
        rule = self._deny.find(access)
        if rule:
            return describe_rule(rule, access)
        if access.action == "run":
            guard = next((r for r in self._commands if r.speaks_of_command(parse_access(access))), None)
            if guard:
                return Verdict(guard.tier, guard.text, guard.why)
            if access.tier == "destructive" and not access.undoable:
                return self._judge_destructive(access)
        what = _get_kind(access)
        if self._defaults.fixed and self._defaults.tiers[what] == "deny" and not access.deferred:
            return self._judge_by_mode(what, access)
        rule = self._ask.find(access) or (None if access.doubt else self._allow.find(access, self._filtered))
        verdict = describe_rule(rule, access) if rule else self._judge_by_mode(what, access)
        return _DEFERRED if access.deferred and not rule else verdict

    def _cut_off(self, access: Access) -> Verdict:
        """A command that may use the network, and cannot: only a rule that allows it opens the network."""
        against = self._deny.find(access) or self._ask.find(access)
        if against and access.hosts:  # this machine, which can be reached
            return describe_rule(against, access)
        rule = None if against else self._allow.find(access)
        return describe_rule(rule, access) if rule else Verdict("allow", "the sandbox cuts the network")

    def _judge_destructive(self, access: Access) -> Verdict:
        """Judge a destructive command: allowed only by a rule with the exact command; asked if a user's rule asks."""
        loose = not self._defaults.fixed and not access.doubt
        opening = self._opening.find(access) if loose else None
        asking = self._ask.find(access)
        if opening and opening.tier == "allow" and not asking:
            return describe_rule(opening, access)
        if asking and loose and asking.loosens and (asking.locked or not self._locked):
            return describe_rule(asking, access)
        return self._judge_by_mode("destructive", access)

    def _judge_by_mode(self, what: str, access: Access) -> Verdict:
        tier = self._defaults.tiers[what]
        if tier == "confined":
            tier = "allow" if self._confined() else "ask"
        decision = cast("Decision", tier)
        if decision == "allow":
            return _ALLOWED if what in ("read", "outside_read") else Verdict("allow", f"mode {self.mode}: {what}")
        kind = "address" if access.action == "network" and not access.by_command else what
        why = WHY[kind].format(target=escape(access.target), doubt=access.doubt, hosts=display_hosts(access))
        if self._defaults.tiers[what] == "confined":
            why += "; in a sandbox it would need no approval (`handrail doctor` says how to get one)"
        idle = self._idle.find(access) if not access.doubt else None
        if idle:
            hint = "the system file is locked" if self._locked else "run `handrail policy trust`"
            why += f"; {idle.source} would allow it, but is not in effect: {hint}"
        line = self._suggest_tree(access) if what == "outside_read" else self._suggest_rule(access)
        return Verdict(decision, f"mode {self.mode}: {what}", why, "", line)

    def _suggest_tree(self, access: Access) -> str:
        """The rule that shows commands the directory of a file outside of the workspace, with all that is in it."""
        place = access.path if os.path.isdir(access.path) else os.path.dirname(access.path)
        is_wide = place.count("/") < 2 or any(is_within(place, one) for one in (self._home, *self._roots))
        line = self._suggest_rule(access if is_wide else replace(access, path=place))
        return line if is_wide or not line else f"{line[:-1]}/**)"

    def _suggest_rule(self, access: Access) -> str:
        """The narrowest rule that would allow the touch; empty if none can."""
        if self._defaults.fixed or self._locked or access.doubt:
            return ""
        resource = access.target if access.action in ("run", "network", "call") else access.path
        if not resource or escape(resource) != resource:  # what cannot be shown is not to be written down
            return ""
        if access.place and not access.place.startswith("/"):  # what is typed for a job depends on the job
            return ""
        if access.action == "run":
            plain = get_plain_words(parse_access(access), wrapped=True) is not None and "*" not in resource
            return f"allow Bash({resource})" if plain else ""
        if access.action == "network":
            hosts = [strip_usual_port(host) for host in list_reached_hosts(access)]
            return "\n".join(f"allow Network({escape_glob(one)})" for one in hosts or [resource])
        if access.action == "call":
            return f"allow Call({escape_glob(resource)})"
        return f"allow {_TOOLS[access.action]}(/{escape_glob(resource)})"
