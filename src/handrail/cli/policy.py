"""`handrail policy`: explain the verdict on a call, test the rules, and trust a project's file."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from handrail.cli.common import (
    CommandParser,
    add_dialect,
    add_workspace,
    find_state,
    open_local_session,
    require_directory,
)
from handrail.cli.output import Stop, UsageError, as_document, escape_for_terminal, on_terminal, warn, write
from handrail.errors import ToolError
from handrail.model import CommandAccess
from handrail.policy import PROJECT
from handrail.policy.check import find_ineffective_rules
from handrail.policy.files import PolicyError, load, trust
from handrail.policy.judge import Machine, RulePolicy
from handrail.policy.modes import MODES
from handrail.text.display import escape
from handrail.text.json_values import parse_json

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from typing import Any

    from handrail.model import Access, Verdict
    from handrail.pipeline.session import Session
    from handrail.policy.files import PolicyFile

_EXIT = {"allow": 0, "ask": 0, "deny": 3}

_ABOUT = """\
Explain and test the rules for this workspace.

  explain TOOL JSON   the verdict on this call: the rule, its file and line, the reason, and a rule that would allow it
  test                run the examples in the rules, and list rules that never take effect
  trust               let this project's handrail.toml allow more as well, in its current version

Rules are read from /etc/handrail/policy.toml, policy.toml and approved.toml in ~/.config/handrail, and handrail.toml in
the workspace."""

_EXAMPLES = """\
examples:
  handrail policy explain Bash '{"command": "git push"}'
  handrail policy explain Read '{"file_path": ".env"}' --mode full
  handrail policy test -w path/to/project
  handrail policy trust

exit codes: 0 allow or ask (or no problems), 1 rules that never take effect, 2 wrong usage or rules, 3 denied"""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("policy", _ABOUT, _EXAMPLES)
    parser.add_argument("what", metavar="WHAT", choices=["explain", "test", "trust"], help="explain, test or trust")
    parser.add_argument("words", metavar="ARGUMENT", nargs="*", default=[], help="explain: the tool, and its arguments")
    add_workspace(parser)
    add_dialect(parser)
    parser.add_argument("--mode", choices=MODES, default="ask", help="the approval mode (default: ask)")
    parser.add_argument("--json", action="store_true", help="explain: print the verdict as JSON")
    parser.add_argument(
        "--sha256", metavar="HEX", help="trust: the SHA-256 of the file you reviewed, where nobody can be asked"
    )
    return parser


def run(options: argparse.Namespace) -> int:
    require_directory("-w", options.workspace)
    expected = {"explain": "TOOL and one JSON object", "test": "no arguments", "trust": "nothing more"}[options.what]
    if len(options.words) != (2 if options.what == "explain" else 0):
        raise UsageError(f"policy {options.what} takes {expected}; see `handrail policy --help`")
    actions = {"explain": _explain, "test": _test, "trust": _trust}
    return actions[options.what](options)


def _load_files(options: argparse.Namespace) -> tuple[PolicyFile, ...]:
    try:
        return load(os.path.realpath(options.workspace), os.environ, find_state())
    except PolicyError as error:
        raise UsageError(str(error)) from None


def _explain(options: argparse.Namespace) -> int:
    files = _load_files(options)
    tool, text = options.words
    try:
        arguments = parse_json(os.fsencode(text))
    except ValueError as error:
        raise UsageError(f'the arguments are not valid JSON: {error}; such as {{"file_path": "a.py"}}') from None
    with open_local_session(options) as session:
        policy, bare = (
            _build_policy(session, options.mode, files),
            _build_policy(session, options.mode, files, hides=False),
        )
        try:
            accesses = session.prepare(tool, arguments).accesses
        except ToolError as error:  # the boundary or the arguments: policy is not even asked
            raise Stop(f"the call is not valid: {session.dialect.render_error(error)}") from None
        verdict = policy.judge(accesses)
        each = [(access, _explain_sandbox(policy.verdict(access), bare.verdict(access))) for access in accesses]
    if options.json:
        write(as_document(_as_json(verdict, each)))
    else:
        rendered = _render_verdict(tool, verdict, each)
        write(escape_for_terminal(rendered) if on_terminal(sys.stdout) else rendered)
    return _EXIT[verdict.decision]


def _explain_sandbox(verdict: Verdict, bare: Verdict) -> Verdict:
    """Add to the reason what the sandbox hides from a command, if that is why it is allowed."""
    hidden = verdict.decision == "allow" != bare.decision
    return replace(verdict, why=f"the sandbox keeps it from the command: {bare.why}") if hidden else verdict


def _build_policy(session: Session, mode: Any, files: Sequence[PolicyFile], *, hides: bool = True) -> RulePolicy:
    host = session.services.command_host
    machine = Machine(
        namespaced=lambda: host().boundary.namespaced,
        masked=lambda: hides and host().sandbox.hides,
        offline=lambda: host().network.offline,
    )
    return RulePolicy(session.workspace.roots, mode, files, machine, tracked=session.services.tracked_files)


def _render_verdict(tool: str, verdict: Verdict, each: Sequence[tuple[Access, Verdict]]) -> str:
    rows = [f"{verdict.decision}: {escape(tool)}"]
    rows += [f"  {'rule':<7} {verdict.rule}"] if verdict.rule else []
    rows += [f"  {'where':<7} {verdict.source or 'built in'}"]
    rows += [f"  {'why':<7} {verdict.why}"] if verdict.why else []
    rows += [f"  {'advice':<7} {verdict.advice}"] if verdict.advice else []
    for access, one in each:
        more = ["by a command"] if access.by_command else []
        if isinstance(access, CommandAccess):
            more = [access.tier, access.doubt]
        facts = "".join(f", {fact}" for fact in more if fact)
        why = f" ({one.why})" if one.why and one.why != verdict.why else ""
        rows.append(f"  {'access':<7} {access.action} {escape(access.target)}{facts}: {one.decision}{why}")
    if verdict.decision != "allow":
        lines = verdict.allow.split("\n") if verdict.allow else ["no rule: " + _describe_default(verdict)]
        rows += [f"  {'allow' if not at else '':<7} {line}" for at, line in enumerate(lines)]
    return "\n".join(rows) + "\n"


def _describe_default(verdict: Verdict) -> str:
    if verdict.source:
        return f"change {verdict.source}"
    return "the mode or a built-in rule always decides"


def _as_json(verdict: Verdict, each: Sequence[tuple[Access, Verdict]]) -> dict[str, object]:
    return {
        "decision": verdict.decision,
        "rule": verdict.rule,
        "source": verdict.source,
        "why": verdict.why,
        "advice": verdict.advice,
        "allow": verdict.allow.split("\n") if verdict.allow else [],
        "accesses": [
            {
                "action": t.action,
                "target": t.target,
                "path": t.path,
                "tier": getattr(t, "tier", ""),
                "doubt": getattr(t, "doubt", ""),
                "decision": v.decision,
                "why": v.why,
            }
            for t, v in each
        ],
    }


def _test(options: argparse.Namespace) -> int:
    files = _load_files(options)
    if not files:
        write("No rule files; the built-in rules apply.\n")
        return 0
    for file in files:
        examples = sum(len(rule.match) + len(rule.not_match) for rule in file.rules)
        untrusted = ", not trusted: its allow rules, checks and hooks do not count"
        state = ", locked" if file.locked else "" if file.trusted else untrusted
        commands = "".join(
            f", {len(some)} {name}" for name, some in (("checks", file.checks), ("hooks", file.hooks)) if some
        )
        counts = f"{len(file.rules)} rules, {examples} examples pass{commands}"
        write(f"{escape(file.path)}: {counts} ({file.origin}{state})\n")
    root, home = os.path.realpath(options.workspace), os.path.realpath(os.path.expanduser("~"))
    never = find_ineffective_rules(files, root, home)
    for rule, why in never:
        warn(f"{rule.source}: never takes effect: {rule.text}: {why}")
    return 1 if never else 0


def _trust(options: argparse.Namespace) -> int:
    file = next((file for file in _load_files(options) if file.origin == "project"), None)
    if file is None:
        raise UsageError(f"there is no {PROJECT} in {escape(os.path.realpath(options.workspace))}")
    loosening = [rule for rule in file.rules if rule.tier == "allow"]
    write("".join(f"{rule.source}: {rule.text}\n" for rule in loosening))
    write("".join(f"check of {escape(check.glob)}: {escape(check.command)}\n" for check in file.checks))
    write("".join(f"{escape(hook.source)}: hook {hook.event} calls: {escape(hook.command)}\n" for hook in file.hooks))
    runs = f", {len(file.checks) + len(file.hooks)} commands run in the sandbox" if file.checks or file.hooks else ""
    write(f"{escape(file.path)}: {len(loosening)} rules allow something{runs}; SHA-256 {file.sha256}\n")
    if file.trusted:
        write("Already trusted.\n")
        return 0
    if options.sha256 is None:
        if not on_terminal(sys.stdin):
            raise UsageError("no terminal to ask at; review the file, then pass its --sha256")
        write("Trust these rules? [y/N] ")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Stop("not trusted; nothing was changed")
    try:
        trust(options.workspace, find_state(), options.sha256 or file.sha256)
    except PolicyError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise Stop(f"the decision could not be saved: {escape(error.filename or '')}: {error.strerror}") from None
    write("Trusted in its current version; a change of the file ends the trust.\n")
    return 0
