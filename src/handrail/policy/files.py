"""Read rule files, the project's only if it is trusted before it allows more, and save rules approved for good.

    /etc/handrail/policy.toml          owned by root; `locked = true`: no other file can allow more
    ~/.config/handrail/policy.toml     the user's
    ~/.config/handrail/approved.toml   rules saved by the answer "always"
    handrail.toml                      the project's: it can deny, and allows nothing until it is trusted

A file may also have checks and hooks; those of a project count once it is trusted.
A missing file is fine. A mistake raises `PolicyError` with file, line and fix, and no session is opened.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import hashlib
import json
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

from handrail.frozen import frozen
from handrail.policy import PROJECT
from handrail.policy.rules import BadRule, Rule, from_line, from_table, require_examples, require_glob, require_known
from handrail.text.display import escape
from handrail.text.globs import Glob
from handrail.text.toml_lines import Key, find_lines

Event = Literal["before", "after"]
MOST_CHECKS, MOST_HOOKS = 20, 50
MOST_SECONDS = 600
_SECONDS = 60
_EVERY_CALL = "*"


@frozen
class FileCheck:
    """A command that reports the problems of files that a glob matches, one problem a line."""

    glob: str
    command: str
    """`{files}` in it stands for the files that were edited, quoted for a shell."""

    def concerns(self, path: str) -> bool:
        """Whether a path below the workspace is checked; a glob without a slash means the last name of it."""
        name = path if "/" in self.glob else path.rpartition("/")[2]
        return Glob(self.glob, hidden=True).match(name)


@frozen
class Hook:
    """A command that runs before or after the calls that one of its rules speaks of."""

    event: Event
    rules: tuple[Rule, ...]
    """Without any it runs for every call."""
    command: str
    seconds: float
    confined: bool
    """Whether it runs in the sandbox: that of a project does, because the model can edit the project's files."""
    source: str
    """`file:line`."""


SYSTEM = "/etc/handrail/policy.toml"
Origin = Literal["system", "user", "project"]
_MOST_BYTES = 1 << 20


class PolicyError(ValueError):
    """Invalid rules; the text has file, line and fix."""


@frozen
class PolicyFile:
    """One file of rules, as it was read."""

    path: str
    origin: Origin
    rules: tuple[Rule, ...] = ()
    locked: bool = False
    trusted: bool = True
    """Of a project's file: whether the person has trusted exactly these bytes."""
    sha256: str = ""
    text: str = field(default="", repr=False, compare=False)
    """As it was read: a remote session sends it to its server."""
    checks: tuple[FileCheck, ...] = ()
    hooks: tuple[Hook, ...] = ()


def find_user_file(environ: Mapping[str, str]) -> str:
    """Where the user's rules are looked for."""
    base = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    return os.path.join(base, "handrail", "policy.toml")


def find_approved_file(environ: Mapping[str, str]) -> str:
    """Where the rules are written down that were approved for good."""
    return os.path.join(os.path.dirname(find_user_file(environ)), "approved.toml")


def load(
    root: str, environ: Mapping[str, str], state: str, *, system: str = SYSTEM, owner: int = 0
) -> tuple[PolicyFile, ...]:
    """The files that hold for a workspace, the furthest one first; raises `PolicyError`."""
    places: list[tuple[Origin, str]] = [
        ("system", system),
        ("user", find_user_file(environ)),
        ("user", find_approved_file(environ)),
        ("project", os.path.join(root, PROJECT)),
    ]
    files = [_read_file(origin, path, root, state, owner) for origin, path in places]
    return tuple(file for file in files if file)


def parse(text: str, path: str, origin: Origin, root: str = "/", *, trusted: bool = True) -> PolicyFile:
    """A text of rules; raises `PolicyError`."""
    try:
        table = tomllib.loads(text)
    except ValueError as error:
        raise PolicyError(f"{escape(path)}: not valid TOML: {escape(str(error))}") from None
    except RecursionError:
        raise PolicyError(f"{escape(path)}: not usable TOML: it is nested too deeply") from None
    reader = _RuleReader(path, origin, find_lines(text), os.path.realpath(root), trusted)
    try:
        rules, locked = reader.read_rules(table)
        checks, hooks = reader.read_checks(table), reader.read_hooks(table)
    except BadRule as error:
        named = next((part for part in reversed(error.key) if isinstance(part, str)), "")
        raise PolicyError(f"{reader.place(error.key)}: {escape(named)}: {error}") from None
    return PolicyFile(path, origin, rules, locked, trusted, text=text, checks=checks, hooks=hooks)


def parse_rules(text: str, *, source: str = "<rules>", root: str | os.PathLike[str] = ".") -> PolicyFile:
    """Parse rules in TOML for `Setup(rules=[...])`; they may loosen, as the user's own may. Raises `PolicyError`.

    ``source`` names them in verdicts and errors. ``root`` is where the examples of the rules (`match`) start from.
    """
    return parse(text, source, "user", os.fspath(root))


def trust(root: str, state: str, sha256: str) -> PolicyFile:
    """Trust the project's file if it is the reviewed version; raises `PolicyError`."""
    path = os.path.join(os.path.realpath(root), PROJECT)
    file = _read_file("project", path, root, state, 0)
    if file is None:
        raise PolicyError(f"{escape(path)}: no such file; there is nothing to trust")
    if file.sha256 != sha256.lower():
        raise PolicyError(
            f"{escape(path)}: it is not the reviewed version: its SHA-256 is {file.sha256}; review it again"
        )
    replace_text(_find_trust_file(path, state), f"{file.sha256}\n{path}\n", durable=True)
    return replace(file, trusted=True)


def replace_text(path: str, text: str, *, durable: bool = False) -> None:
    """Write a file that only this user may read, in one step. ``durable``: it survives a power cut."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    beside = f"{path}.{os.getpid()}"
    try:
        with open(beside, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)


def _is_trusted(path: str, digest: str, state: str) -> bool:
    with (
        contextlib.suppress(OSError, UnicodeDecodeError),
        open(_find_trust_file(path, state), encoding="utf-8") as file,
    ):
        return file.readline().strip() == digest
    return False


def _find_trust_file(path: str, state: str) -> str:
    real = os.path.realpath(path)
    return os.path.join(state, "trust", hashlib.sha256(os.fsencode(real)).hexdigest()[:32])


def _read_file(origin: Origin, path: str, root: str, state: str, owner: int) -> PolicyFile | None:
    raw = _read(path, owner if origin == "system" else None)
    if raw is None:
        return None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PolicyError(f"{escape(path)}: byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None
    digest = hashlib.sha256(raw).hexdigest()
    trusted = origin != "project" or _is_trusted(path, digest, state)
    return replace(parse(text, path, origin, root, trusted=trusted), sha256=digest)


def _read(path: str, owner: int | None) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise PolicyError(
            f"{escape(path)}: cannot be read: {error.strerror}; no session is opened without its rules"
        ) from None
    status = os.fstat(fd)
    if stat.S_ISDIR(status.st_mode):
        os.close(fd)
        raise PolicyError(f"{escape(path)}: a directory; rename it, because rules must be in a TOML file of that name")
    with open(fd, "rb") as file:
        if stat.S_IFMT(status.st_mode) not in (stat.S_IFREG, stat.S_IFCHR):  # /dev/null will do
            raise PolicyError(f"{escape(path)}: not a file; rules must be in a TOML file")
        if owner is not None and (status.st_uid != owner or status.st_mode & 0o022):
            hint = f"`chown root {escape(path)} && chmod 644 {escape(path)}`"
            raise PolicyError(f"{escape(path)}: users other than root can change it; {hint}")
        raw = file.read(_MOST_BYTES + 1)
    if len(raw) > _MOST_BYTES:
        raise PolicyError(f"{escape(path)}: more than {_MOST_BYTES >> 20} MB; rules are a few lines of TOML")
    return raw


@contextlib.contextmanager
def _at(*key: str | int) -> Iterator[None]:
    """The place of what is read, for mistakes in it."""
    try:
        yield
    except BadRule as error:
        raise BadRule(str(error), *key, *error.key) from None


@frozen
class _RuleReader:
    """Reads the tables of a file; a mistake raises `BadRule` with its key."""

    path: str
    origin: Origin
    lines: Mapping[Key, int]
    root: str
    trusted: bool

    def place(self, key: Key) -> str:
        """`file:line` of a key."""
        while key and key not in self.lines:
            key = key[:-1]
        return f"{escape(self.path)}:{self.lines[key]}" if key else escape(self.path)

    def read_rules(self, table: Mapping[str, object]) -> tuple[tuple[Rule, ...], bool]:
        """The rules, and whether the file is locked."""
        if "locked" in table and self.origin != "system":
            raise BadRule(f"only the system file {SYSTEM} can be locked; leave it out", "locked")
        require_known(table, ("rules", "permissions", "checks", "hooks", *(["locked"] if "locked" in table else [])))
        locked = table.get("locked", False)
        if not isinstance(locked, bool):
            raise BadRule("must be true or false", "locked")
        rules = [self._read_rule(value, ("rules", number)) for number, value in enumerate(_get_list(table, "rules"))]
        lists = table.get("permissions", {})
        if not isinstance(lists, dict):
            raise BadRule("must be a table, [permissions], with the lists allow, ask and deny", "permissions")
        with _at("permissions"):
            require_known(lists, ("allow", "ask", "deny"), "lists")
            lines = [(tier, number, line) for tier in lists for number, line in enumerate(_get_list(lists, tier))]
        rules += [self._read_rule(line, ("permissions", tier, number), tier) for tier, number, line in lines]
        return tuple(rules), locked

    def _read_rule(self, value: object, key: Key, tier: str = "") -> Rule:
        with _at(*key):
            if tier and not isinstance(value, str):
                raise BadRule('must be texts such as "Read(.env)"')
            if isinstance(value, str):
                rule = from_line(value, tier, project=self.origin == "project")
            elif isinstance(value, dict):
                rule = from_table(value)
            else:
                raise BadRule('must be tables, [[rules]], or texts such as "deny Read(.env)"')
            rule = replace(rule, source=self.place(key), loosens=self.trusted, locked=self.origin == "system")
            require_examples(rule, self.root, os.path.expanduser("~"))
        return rule

    def read_checks(self, table: Mapping[str, object]) -> tuple[FileCheck, ...]:
        globs = table.get("checks", {})
        with _at("checks"):
            if not isinstance(globs, dict):
                raise BadRule('must be a table, [checks], such as "*.py" = "ruff check {files}"')
            for glob in globs:
                require_glob(glob, glob)
            what = "a command, or a list of commands"
            checks = [FileCheck(glob, one) for glob, value in globs.items() for one in _read_texts(glob, value, what)]
            if len(checks) > MOST_CHECKS:
                raise BadRule(f"at most {MOST_CHECKS} commands")
        return tuple(checks)

    def read_hooks(self, table: Mapping[str, object]) -> tuple[Hook, ...]:
        hooks = []
        for number, value in enumerate(_get_list(table, "hooks")):
            with _at("hooks", number):
                hooks.append(self._read_hook(value, self.place(("hooks", number))))
        if len(hooks) > MOST_HOOKS:
            raise BadRule(f"at most {MOST_HOOKS} hooks", "hooks")
        return tuple(hooks)

    def _read_hook(self, table: object, source: str) -> Hook:
        if not isinstance(table, dict):
            raise BadRule("must be tables, [[hooks]], with before or after, and run")
        require_known(table, ("before", "after", "run", "seconds"))
        if ("before" in table) == ("after" in table):
            raise BadRule("a hook has either before or after: the calls that it runs for")
        project = self.origin == "project"
        event: Event = "before" if "before" in table else "after"
        patterns = _read_texts(event, table[event], 'a pattern such as "Edit(src/**)", or a list of patterns')
        with _at(event):  # as refusals: these find a command behind its wrappers too
            every = _EVERY_CALL in patterns
            rules = [] if every else [from_line(pattern, "deny", project=project) for pattern in patterns]
        run, seconds = table.get("run"), table.get("seconds", _SECONDS)
        if not isinstance(run, str) or not run.strip():
            raise BadRule("must be a command, run by the shell in the workspace", "run")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MOST_SECONDS:
            raise BadRule(f"must be a number above 0, and at most {MOST_SECONDS}", "seconds")
        return Hook(event, tuple(rules), run, seconds, project, source)


def _get_list(table: Mapping[str, object], key: str) -> list[Any]:
    value = table.get(key, [])
    if not isinstance(value, list):
        raise BadRule(f"must be a list of {'hooks' if key == 'hooks' else 'rules'}", key)
    return value


def _read_texts(key: str, value: object, what: str) -> list[str]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values or not all(isinstance(one, str) and one.strip() for one in values):
        raise BadRule(f"{escape(key)} must be {what}", key)
    return values


_HEAD = "# Rules saved by the answer `always`. Remove a line to be asked again.\nrules = [\n"


def remember(lines: Sequence[str], environ: Mapping[str, str], place: str) -> str:
    """Add the rules that are not there yet; returns the file. Raises `PolicyError` if it cannot be used.

    ``place``: the directory that the commands among them run in.
    """
    path = find_approved_file(environ)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(f"{path}.lock", "wb") as lock:  # two people may say yes at once
            fcntl.flock(lock, fcntl.LOCK_EX)
            _add(lines, path, place)
    except UnicodeError:
        raise PolicyError(f"{path}: not UTF-8; save it as UTF-8, or remove it") from None
    except OSError as error:
        raise PolicyError(f"{path}: the rule cannot be saved: {error.strerror}") from None
    return path


def _add(lines: Sequence[str], path: str, place: str) -> None:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        text = _HEAD + "]\n"
    before = parse(text, path, "user").rules
    known = {(rule.text, rule.place) for rule in before}
    new: dict[str, Rule] = {}
    for line in filter(None, lines):
        rule = from_line(line, project=False)
        rule = replace(rule, place=place) if rule.actions == {"run"} or rule.lends else rule
        if (rule.text, rule.place) not in known:
            new[line] = rule
    if not new:
        return
    today = dt.datetime.now(dt.UTC).date().isoformat()
    text = (
        text.rstrip().removesuffix("]")
        + "".join(f"  {_write_rule(line, rule.place)},  # {today}\n" for line, rule in new.items())
        + "]\n"
    )
    after = parse(text, path, "user").rules
    # What is not read back as the very rules that were meant must not be written.
    if [_strip_source(rule) for rule in after] != [_strip_source(rule) for rule in (*before, *new.values())]:
        raise PolicyError(f"{path}: its format was changed, so no rule can be added; restore the list `rules = [`")
    replace_text(path, text, durable=True)


def _write_rule(line: str, place: str) -> str:
    text = json.dumps(line, ensure_ascii=False)
    return f"{{ rule = {text}, in = {json.dumps(place, ensure_ascii=False)} }}" if place else text


def _strip_source(rule: Rule) -> Rule:
    return replace(rule, source="", loosens=True)
