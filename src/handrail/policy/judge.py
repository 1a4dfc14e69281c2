"""Judge every access by the rules; return the strictest verdict with its rule, source and reason.

Each access is judged in this order:

    1. a deny rule of any file, and ignore files           nothing overrides these
    2. a built-in rule that denies: secrets                unless a rule names the file in full
    3. an ask rule of any file; a built-in rule that asks  nothing overrides these
    4. an allow rule of a trusted file
    5. the mode

The text of a command answers four questions: is it refused everywhere, does it use the network, does it reach outside
the workspace, and does a user's rule match it? Its changes in a draft are judged afterwards, path by path.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from handrail.frozen import frozen
from handrail.model import (
    LENT,
    Access,
    CommandAccess,
    Decision,
    FileAccess,
    Mention,
    NetworkAccess,
    Verdict,
)
from handrail.policy.files import PolicyFile
from handrail.policy.guards import Sight, SortedRules, may_loosen
from handrail.policy.hosts import display_hosts, list_reached_hosts, strip_usual_port
from handrail.policy.modes import Mode
from handrail.policy.paths import (
    PathSet,
    escape_glob,
    goes_through_process,
    is_within,
)
from handrail.policy.rules import (
    STRICT,
    WHY,
    describe_rule,
    get_plain_words,
    parse_access,
    take_stricter,
)
from handrail.policy.shell_patterns import expand
from handrail.text.display import escape
from handrail.workspace import Root

if TYPE_CHECKING:
    from handrail.policy.protected import FirstIgnores
    from handrail.shell.git.tracked_files import TrackedFiles

_TOOLS = {"read": "Read", "write": "Edit", "delete": "Delete"}
ALLOWED = Verdict("allow")
_IN_DRAFT = "in a draft it could be undone, and would need no approval (`handrail doctor` says how to get one)"
DEFERRED = Verdict("allow", "it runs in a draft and is checked after it runs")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/stdout", "/dev/stderr", "/dev/tty")
_TEMPORARY = "/tmp"  # noqa: S108 - named to be judged, not used


@frozen
class Machine:
    """How this machine confines commands. Each check runs only when needed, because it may start a sandbox."""

    namespaced: Callable[[], bool] = lambda: False
    """Commands run in namespaces. Landlock does not count: it cannot hide part of a tree, and has no drafts."""
    masked: Callable[[], bool] = lambda: False
    """The sandbox hides unreadable files from commands."""
    offline: Callable[[], bool] = lambda: False
    """The sandbox cuts off the network."""
    loopback: Callable[[], bool] = lambda: True
    """Commands can reach a loopback interface in the sandbox."""
    filtered: Callable[[], bool] = lambda: False
    """The sandbox can give commands a proxy that reaches only allowed hosts."""


@frozen
class Basis:
    """The rules, the readable files, and the machine."""

    rules: SortedRules
    sight: Sight
    machine: Machine
    writable: Sequence[str]
    """The real paths of the roots that may be changed."""
    own_output: Sequence[str]
    """Real paths of Handrail's own output that commands may read."""


def is_never_allowed(basis: Basis, what: str) -> bool:
    """Whether the mode refuses something regardless of allow and ask rules."""
    return basis.rules.defaults.fixed and basis.rules.defaults.tiers[what] == "deny"


def judge_by_mode(basis: Basis, what: str, access: Access) -> Verdict:
    """The verdict where no rule matches. ``what``: the mode's name for the access."""
    rules = basis.rules
    tier = setting = rules.defaults.tiers[what]
    if setting == "namespaces":
        tier = "allow" if basis.machine.namespaced() else "ask"
    decision = cast("Decision", tier)
    if decision == "allow":
        return ALLOWED if what in ("read", "outside_read") else Verdict("allow", f"mode {rules.mode}: {what}")
    doubt = access.doubt if isinstance(access, CommandAccess) else ""
    hosts = display_hosts(access) if isinstance(access, NetworkAccess) else ""
    kind = "address" if isinstance(access, NetworkAccess) and not access.by_command else what
    kind = "delete" if what == "write" and access.action == "delete" else kind
    why = WHY[kind].format(target=escape(access.target), doubt=doubt, hosts=hosts)
    advice = [_IN_DRAFT] if what == "discard" or setting == "namespaces" else []
    idle = rules.idle.find(access) if not doubt else None
    if idle:
        hint = "the system file is locked" if rules.locked else "run `handrail policy trust`"
        advice.append(f"{idle.source} would allow it, but is not in effect: {hint}")
    in_tree = isinstance(access, FileAccess) and what == "outside_read"
    line = _suggest_tree(basis, cast("FileAccess", access)) if in_tree else suggest_rule(basis, access)
    return Verdict(decision, f"mode {rules.mode}: {what}", why, "", line, "; ".join(advice))


def _suggest_tree(basis: Basis, access: FileAccess) -> str:
    """The rule that shows commands the whole directory of a file outside the workspace."""
    place = access.path if os.path.isdir(access.path) else os.path.dirname(access.path)
    is_wide = place.count("/") < 2 or any(is_within(place, one) for one in (basis.sight.home, *basis.sight.roots))
    line = suggest_rule(basis, access if is_wide else replace(access, path=place))
    return line if is_wide or not line else f"{line[:-1]}/**)"


def suggest_rule(basis: Basis, access: Access) -> str:
    """The narrowest rule that would allow an access; empty if none can."""
    resource = access.path if isinstance(access, FileAccess) else access.target
    if basis.rules.defaults.fixed or basis.rules.locked or not resource:
        return ""
    if escape(resource) != resource:  # not displayable, so not to be saved
        return ""
    if isinstance(access, FileAccess):
        return f"allow {_TOOLS[access.action]}(/{escape_glob(resource)})"
    if isinstance(access, CommandAccess):
        for_job = access.place and not access.place.startswith("/")  # input for a job depends on the job
        fixed = not (access.doubt or for_job or "*" in resource)
        return f"allow Bash({resource})" if fixed and get_plain_words(parse_access(access), wrapped=True) else ""
    if isinstance(access, NetworkAccess):
        hosts = [strip_usual_port(host) for host in list_reached_hosts(access)]
        return "\n".join(f"allow Network({escape_glob(one)})" for one in hosts or [resource])
    return f"allow Call({escape_glob(resource)})"


def judge_file(basis: Basis, access: FileAccess) -> Verdict:
    """Judge a file access of a tool or a command, and files that a command reaches without naming them."""
    verdict = _judge_named(basis, access)
    if verdict.decision == "deny" or not access.by_command:
        return verdict
    if access.glob:
        verdict = take_stricter(verdict, _judge_matches(basis, access))
    if access.action != "read" and access.below and not access.deferred and (access.glob or os.path.isdir(access.path)):
        verdict = take_stricter(verdict, _judge_whole(basis, access))
    if access.action == "read" and not basis.machine.masked():
        if access.below and access.sees not in ("names", "tracked"):
            verdict = take_stricter(verdict, _judge_below(basis, access))
        if goes_through_process(access.target, glob=access.glob):
            verdict = take_stricter(verdict, judge_process_path(access.target))
    return verdict


def _judge_whole(basis: Basis, access: FileAccess) -> Verdict | None:
    """Judge a change of a whole directory: a rule may cover part of it."""
    rules = (*basis.rules.deny.all, *basis.rules.ask.all)
    rule = next((rule for rule in rules if access.action in rule.actions and rule.paths), None)
    why = f"{escape(access.target)} would be changed with what is in it, which a rule may be about"
    return Verdict("ask", rule.text, why, rule.source) if rule else None


def judge_change(basis: Basis, access: FileAccess) -> Verdict:
    """Judge a change that a command has made in a draft. It is shown, and can be undone later."""
    return _decide(basis, access, "write", find_refusal(basis, access))


def judge_process_path(target: str) -> Verdict:
    """Judge a path through a process's directory in `/proc`, where no sandbox hides secrets."""
    return Verdict("ask", "hidden files", f"{escape(target)} leads through the directory of a process")


def _judge_named(basis: Basis, access: FileAccess) -> Verdict:
    refused = find_refusal(basis, access)
    other = _as_named(basis, access)
    if other and (by_name := find_refusal(basis, other)):
        refused = take_stricter(refused, by_name) if refused else by_name
    return _decide(basis, access, _name_place(basis, access), refused)


def _decide(basis: Basis, access: FileAccess, what: str, refused: Verdict | None) -> Verdict:
    """The verdict by the rules and the mode. ``what``: the mode's name for the access."""
    rules = basis.rules
    if is_never_allowed(basis, what) and (refused is None or refused.decision == "ask"):
        return judge_by_mode(basis, what, access)
    lends = access.lent_to and not rules.defaults.fixed
    if lends and (not refused.source if refused else _is_socket(access.path)):
        return _judge_lending(basis, access)
    if refused:
        return refused
    if rule := rules.allow.file(access.action, access.path or access.target):
        return describe_rule(rule, access)
    return DEFERRED if access.deferred and not rules.defaults.fixed else judge_by_mode(basis, what, access)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _judge_lending(basis: Basis, access: FileAccess) -> Verdict:
    """Judge a hidden file that a command asks to see: a rule for both allows it, or a person does."""
    sight = basis.sight
    place = os.path.realpath(os.path.join(basis.rules.allow.home, access.place))
    run = CommandAccess(access.lent_to, place=place)
    for rule in basis.rules.lending:
        paths = PathSet([rule.paths], sight.roots, sight.home, deep=False)
        if rule.speaks_of_command(parse_access(run), place) and paths.find(access.path):
            return describe_rule(rule, access)
    file, command = suggest_rule(basis, access), suggest_rule(basis, run)
    line = f"{file} for {command.removeprefix('allow ')}" if file and command else ""
    return Verdict("ask", LENT, f"`{escape(access.lent_to)}` asks {access.why}", "", line)


def _judge_matches(basis: Basis, access: FileAccess) -> Verdict:
    """Judge the files that a pattern matches."""
    paths, whole = expand(access.target, basis.sight.roots)
    worst = ALLOWED
    for path in paths:
        name = basis.sight.shorten_path(path)
        if "/-" in f"/{name}":
            why = f"a pattern may match the file {escape(name)}, which would be an option"
            return Verdict("ask", "hidden files", why)
        if access.sees not in ("names", "tracked"):
            with contextlib.suppress(OSError):  # a link of a process that has just ended, or of another user
                path = os.path.realpath(path)
            one = replace(access, target=name, path=path, glob=False)
            hidden = access.action == "read" and basis.machine.masked()
            worst = take_stricter(worst, judge_place(basis, one) if hidden else _judge_named(basis, one))
    if whole:
        return worst
    why = f"{escape(access.target)} matches too many files to look at each: a secret may be among them"
    return take_stricter(worst, Verdict("ask", "hidden files", why))


def _judge_below(basis: Basis, access: FileAccess) -> Verdict | None:
    """Judge the files below a directory that a command reads recursively, where nothing hides secrets."""
    tops = expand(access.target, basis.sight.roots)[0] if access.glob else [access.path]
    hidden = access.sees == "contents"
    unreadable = (basis.sight.find_unreadable_below(os.path.realpath(top), hidden=hidden) for top in tops)
    inner = next(filter(None, unreadable), "")
    why = f"contains {escape(basis.sight.shorten_path(inner))}, which is protected"
    if not inner and basis.sight.searched_all:
        return None
    why = why if inner else "is too large to be searched for secrets"
    return Verdict("ask", "hidden files", f"{escape(access.target)} {why}")


def judge_place(basis: Basis, access: FileAccess) -> Verdict:
    """Judge a file by its place alone."""
    return judge_by_mode(basis, _name_place(basis, access), access)


def find_refusal(basis: Basis, access: FileAccess) -> Verdict | None:
    """The verdict of a deny, built-in or ask rule, which no allow rule and no mode can change."""
    rules, sight = basis.rules, basis.sight
    action, path = access.action, access.path or access.target
    rule = rules.deny.file(action, path)
    if rule is None and action == "write":  # a diff shows the surrounding lines
        rule = rules.deny.file("read", path)
    if rule:
        return describe_rule(rule, access)
    if action != "delete" and (file := sight.ignored.find(path)):
        return Verdict("deny", "ignore file", f"{escape(access.target)} is hidden by an ignore file", escape(file))
    guard = sight.built_in.find(action, path)
    if guard is None and action == "write" and os.path.lexists(path):  # a diff shows the surrounding lines
        guard = sight.built_in.find("read", path)
    if guard and guard.tier == "deny" and not (access.observed and not rules.defaults.fixed):
        if rules.opening.file(action, path) is None:
            why = f"{escape(access.target)}: {guard.why}"
            return Verdict("deny", guard.text, why, "", suggest_rule(basis, access))
        guard = next((rule for rule in sight.built_in.all(action, path) if rule.tier == "ask"), None)
    if guard is None and action != "delete" and (hidden := _find_hidden(basis, access, path)):
        return hidden
    if rule := rules.ask.file(action, path):
        return describe_rule(rule, access)
    if access.deferred or (access.by_command and _is_private(basis, path)):  # a draft's changes are judged and shown
        return None
    if guard:
        return Verdict("ask", guard.text, f"{escape(access.target)}: {guard.why}")
    if action == "delete" and any(is_within(path, root) for root in sight.roots):
        return Verdict("ask", "workspace", f"{escape(access.target)} is the workspace itself, or contains it")
    return None


def _find_hidden(basis: Basis, access: FileAccess, path: str) -> Verdict | None:
    """Refuse a secret that its name does not reveal: a hard link to a secret, or a file with a key in it."""
    if secret := basis.sight.hard_links.find(path):
        name = escape(basis.sight.shorten_path(secret))
        return Verdict("deny", "hidden files", f"{escape(access.target)} is another name of {name} on the disk")
    if access.observed or not basis.sight.holds_secret(path):
        return None
    why = f"{escape(access.target)} holds a private key or an access token"
    return Verdict("deny", "secrets", why, "", suggest_rule(basis, access))


def _as_named(basis: Basis, access: FileAccess) -> FileAccess | None:
    """The access by its given name, if it is a link: a secret may have a harmless real name."""
    named, real = access.target, access.path
    if not real or named == real:
        return None
    if not named.startswith("/"):
        if access.by_command:  # its directory is unknown here, only its last name is certain
            last = os.path.basename(named)
            named = f"{os.path.dirname(real)}/{last}" if last.strip(".") else real
        else:
            named = os.path.join(*basis.sight.roots[:1], named)
    named = os.path.normpath(named)
    return replace(access, path=named) if named != real else None


def _name_place(basis: Basis, access: FileAccess) -> str:
    """The mode's name for an access: the action, or the place of a command's effect."""
    path = access.path or access.target
    if access.renamed or (access.action == "delete" and not access.by_command):
        return "write"  # a tool saves a file before it deletes it
    if not access.by_command:
        return access.action
    if access.action == "read":
        # A relative path is tried from every directory that a script may be in; from most it leads nowhere.
        is_place = access.glob and access.target.startswith(("/", "~"))
        nowhere = not is_place and not os.path.lexists(path)
        usual = access.sees == "names" or nowhere or _is_usual_read(basis, path)
        return "read" if usual else "outside_read"
    if any(is_within(root, path) for root in basis.writable):
        return access.action
    if access.action == "write" and access.target in _DEVICES:
        return "read"  # nothing is changed
    return "write" if _is_private(basis, path) else "outside"


def _is_usual_read(basis: Basis, path: str) -> bool:
    """Whether a command may read this without asking: it belongs to the session or to the system."""
    if basis.sight.trees.is_usual(path) or any(is_within(place, path) for place in basis.own_output):
        return True
    return _is_private(basis, path)


def _is_private(basis: Basis, path: str) -> bool:
    """Whether this path is in a command's private temporary directory, which nobody else sees."""
    inside = is_within(os.path.realpath(_TEMPORARY), path)
    if not inside or any(is_within(root, path) or is_within(path, root) for root in basis.writable):
        return False
    return basis.machine.namespaced()


def judge_command(basis: Basis, access: CommandAccess) -> Verdict:
    """Judge a command, and the paths in its text."""
    verdict = _judge_by_rules(basis, access)
    named = _judge_mentions(basis, access) if access.mentions and verdict.decision != "deny" else None
    if named and verdict.decision == named.decision == "ask":
        lines = f"{verdict.allow}\n{named.allow}" if verdict.allow and named.allow else ""
        return replace(named, allow=lines)
    return take_stricter(verdict, named)


def _judge_by_rules(basis: Basis, access: CommandAccess) -> Verdict:
    rules = basis.rules
    if rule := rules.deny.find(access):
        return describe_rule(rule, access)
    if access.tier == "destructive":
        return _judge_destructive(basis, access)
    what = _name_tier(access)
    if is_never_allowed(basis, what) and not access.deferred:
        return judge_by_mode(basis, what, access)
    rule = rules.ask.find(access) or (None if access.doubt else rules.allow.find(access))
    if rule:
        return describe_rule(rule, access)
    return DEFERRED if access.deferred else judge_by_mode(basis, what, access)


def _name_tier(access: CommandAccess) -> str:
    """The mode's name for a command."""
    if access.doubt:
        return "doubt"
    return "discard" if access.undoable and not access.deferred else access.tier or "ordinary"


def _judge_destructive(basis: Basis, access: CommandAccess) -> Verdict:
    """Judge a destructive command: only a rule with the exact command allows it, and a user's ask rule still asks."""
    rules = basis.rules
    asking = rules.ask.find(access)
    rule = asking or rules.opening.find(access)
    if rule and may_loosen(rule, rules.locked) and not (rules.defaults.fixed or access.doubt):
        return describe_rule(rule, access)
    return judge_by_mode(basis, "destructive", access)


def _judge_mentions(basis: Basis, access: CommandAccess) -> Verdict | None:
    """Judge the existing files in the arguments of a program we don't recognise.

    In a draft, it would not see files outside the workspace. Where no sandbox hides secrets, a user's rule refuses. For
    any other hidden file a person is asked, because many programs use a secret without showing it.
    """
    worst, masked = ALLOWED, basis.machine.masked()
    for mention in () if masked else access.mentions:
        if goes_through_process(mention.path, glob=mention.kind == "pattern"):
            return judge_process_path(mention.path)
    for path in dict.fromkeys(path for mention in access.mentions for path in _list_paths(basis, mention)):
        real = os.path.realpath(path)
        read = FileAccess("read", basis.sight.shorten_path(path), path)
        above = any(is_within(real, root) for root in basis.sight.roots)
        if access.deferred and not above and not basis.rules.allow.file("read", real):
            place = replace(read, target=basis.sight.shorten_path(real), path=real, by_command=True)
            worst = take_stricter(worst, judge_place(basis, place))
        if not masked and (refused := find_refusal(basis, read)):
            decision: Decision = "deny" if refused.decision == "deny" and refused.source else "ask"
            why = f"`{escape(access.target)}` names {escape(read.target)}, which may not be read"
            worst = take_stricter(worst, Verdict(decision, refused.rule, why, refused.source, refused.allow))
    return worst


def _list_paths(basis: Basis, mention: Mention) -> list[str]:
    """The existing paths that a mention may refer to: as written, and with links followed.

    A bare name may be a file in any directory, so any file with that name counts.
    """
    paths = [os.path.normpath(os.path.join(*basis.sight.roots[:1], os.path.expanduser(mention.path)))]
    if mention.kind == "name":
        return paths
    if mention.kind == "pattern":
        paths = expand(mention.path, basis.sight.roots)[0]
    return [name for path in paths if os.path.lexists(path) for name in (path, os.path.realpath(path))]


def judge_network(basis: Basis, access: NetworkAccess) -> Verdict:
    """Judge a use of the network."""
    rules, machine = basis.rules, basis.machine
    if access.possible and (not access.hosts or machine.loopback()) and machine.offline():
        return _cut_off(basis, access)
    if rule := rules.deny.find(access):
        return describe_rule(rule, access)
    what = "fetch" if access.fetches else "network"
    if is_never_allowed(basis, what):
        return judge_by_mode(basis, what, access)
    rule = rules.ask.find(access) or rules.allow.find(access, machine.filtered)
    return describe_rule(rule, access) if rule else judge_by_mode(basis, what, access)


def _cut_off(basis: Basis, access: NetworkAccess) -> Verdict:
    """Judge a possible network use inside an offline sandbox: only an allow rule opens the network."""
    against = basis.rules.deny.find(access) or basis.rules.ask.find(access)
    if against and access.hosts:  # hosts on this machine, which can be reached
        return describe_rule(against, access)
    rule = None if against else basis.rules.allow.find(access)
    return describe_rule(rule, access) if rule else Verdict("allow", "the sandbox cuts the network")


def needs_filter(basis: Basis, accesses: Sequence[Access]) -> bool:
    """Whether a command gets a proxy to the allowed hosts instead of the network.

    It does if every program in it uses a proxy, or may only fetch build dependencies.
    """
    rules = basis.rules
    out = [access for access in accesses if isinstance(access, NetworkAccess)]
    if rules.defaults.fixed or not rules.allow.names_hosts or not basis.machine.filtered():
        return False
    uses_proxy = all(access.proxied or (access.possible and not access.hosts) for access in out)
    if not uses_proxy or any(rules.allow.spells_out(access) for access in out):
        return False
    return all(judge_network(basis, access).decision == "allow" for access in out)


class RulePolicy(Sight):
    """Judges by the rules of files, the built-in rules, and the mode."""

    def __init__(
        self,
        roots: Sequence[Root],
        mode: Mode = "ask",
        files: Sequence[PolicyFile] = (),
        machine: Machine = Machine(),  # noqa: B008 - it is frozen
        home: str | None = None,
        tracked: TrackedFiles | None = None,
        ignores: FirstIgnores | None = None,
    ) -> None:
        """``tracked``: the files that git tracks; the default stores nothing for later sessions.

        ``ignores``: the paths git ignored when the session began; by default, the paths it ignores now.
        """
        self.mode = mode
        self.files = tuple(files)
        own = [root for root in roots if not root.alias]
        paths = [os.path.realpath(root.path) for root in own]
        place = os.path.realpath(home or os.path.expanduser("~"))
        rules = SortedRules.sort(mode, files, paths, place)
        if tracked is None:
            from handrail.shell.git.tracked_files import TrackedFiles  # a session has its own

            tracked = TrackedFiles()
        super().__init__(rules, paths, place, self._may_read, tracked, ignores)
        writable = [os.path.realpath(root.path) for root in own if root.writable]
        output = [os.path.realpath(root.path) for root in roots if root.alias]
        self._basis = Basis(rules, self, machine, writable, output)

    def _may_read(self, path: str) -> bool:
        return judge_file(self._basis, FileAccess("read", path, path)).decision == "allow"

    def judge(self, accesses: Sequence[Access]) -> Verdict:
        """The strictest verdict on all accesses; its `allow` has a line for each access that needs a rule."""
        verdicts = [self.verdict(access) for access in accesses]
        rank = lambda verdict: (STRICT[verdict.decision], verdict is not ALLOWED)  # noqa: E731
        strictest = max(verdicts, key=rank, default=ALLOWED)
        lines = [verdict.allow for verdict in verdicts if verdict.decision != "allow"]
        if len(lines) < 2:
            return strictest
        every = "\n".join(dict.fromkeys(lines)) if all(lines) else ""
        return replace(strictest, allow=every)

    def verdict(self, access: Access) -> Verdict:
        """Judge one access."""
        verdict = self._judge_kind(access)
        if self.mode == "deny-asks" and verdict.decision == "ask":
            return replace(verdict, decision="deny", why=f"{verdict.why}; this mode does not ask")
        return verdict

    def _judge_kind(self, access: Access) -> Verdict:
        if isinstance(access, FileAccess):
            return (judge_change if access.observed else judge_file)(self._basis, access)
        if isinstance(access, CommandAccess):
            return judge_command(self._basis, access)
        if isinstance(access, NetworkAccess):
            return judge_network(self._basis, access)
        rules, never = self._basis.rules, is_never_allowed(self._basis, "call")
        rule = rules.deny.find(access) or (None if never else rules.ask.find(access) or rules.allow.find(access))
        return describe_rule(rule, access) if rule else judge_by_mode(self._basis, "call", access)

    def filters(self, accesses: Sequence[Access]) -> bool:
        """Whether a command gets a proxy to the allowed hosts instead of the network."""
        return needs_filter(self._basis, accesses)

    def allows_host(self, host: str) -> bool:
        """Whether a rule allows a host, given as `host:port`."""
        verdict = self.verdict(NetworkAccess(host))
        return verdict.decision == "allow" and bool(verdict.source)

    def remember(self, lines: Sequence[str], place: str = "") -> str:
        """Save rules that a person has approved permanently; command rules apply in ``place``. Returns the file.

        Raises `PolicyError`.
        """
        from handrail.policy.files import remember  # only where somebody is asked

        return remember(lines, os.environ, place or (self.roots[0] if self.roots else "/"))
