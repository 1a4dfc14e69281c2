"""Handrail: the file and command tools of a coding agent.

    from handrail import Session

    session = Session("path/to/project")
    result = session.call("Read", {"file_path": "README.md"})
    print(result.text, result.status, result.notes)

The names below are the public API. Each is imported when it is first used, so that `import handrail` costs nothing.
"""

from __future__ import annotations

from handrail.version import __version__ as __version__

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from handrail.agent.history import History
    from handrail.agent.loop import Agent, AgentLimits, Ending
    from handrail.agent.messages import Event
    from handrail.agent.prompt import system_prompt
    from handrail.agent.providers import Model, ModelError, open_model
    from handrail.aio import AsyncSession
    from handrail.approval.ask_attached import Approvers
    from handrail.dialects import Dialect, DialectError, Spec
    from handrail.drafts.changes import FileSummary
    from handrail.drafts.keep import DraftConflict
    from handrail.drafts.store import NoDraft
    from handrail.errors import ToolError
    from handrail.fleet.cluster import Fleet
    from handrail.fleet.worker import FleetResult
    from handrail.fleet.workspaces import FleetWorkspace
    from handrail.journal import Journal, JournalFailed, PendingRecord, Record, Token
    from handrail.journal.store import SqliteJournal
    from handrail.journal.undo import CannotUndo, UndoReport
    from handrail.journal.undo_selection import UnknownCall
    from handrail.model import (
        Access,
        Answer,
        Approve,
        Call,
        CommandAccess,
        Failure,
        FileAccess,
        FileDiff,
        NetworkAccess,
        Note,
        Question,
        Result,
        ToolAccess,
        Verdict,
    )
    from handrail.pipeline.any_session import AnySession
    from handrail.pipeline.call_state import Judged as Prepared
    from handrail.pipeline.events import SessionEvent, ToolFinished, ToolOutput, ToolProgress, ToolStarted
    from handrail.pipeline.options import Setup
    from handrail.pipeline.remote_session import connect
    from handrail.pipeline.session import Session
    from handrail.pipeline.session_draft import SessionDraft
    from handrail.policy import AllowAll, Policy
    from handrail.policy.files import PolicyError, PolicyFile, parse_rules
    from handrail.policy.modes import Mode
    from handrail.policy.stricter import Restriction
    from handrail.settings import AgentSettings, Settings
    from handrail.settings.config_file import Config, ConfigError
    from handrail.settings.config_file import load as load_config
    from handrail.tools.functions import ReadFile, RunContext, WriteFile, tool
    from handrail.workspace import Root

_HOMES = {
    "Agent": "agent.loop",
    "AgentLimits": "agent.loop",
    "AgentSettings": "settings",
    "AllowAll": "policy",
    "Answer": "model",
    "Approve": "model",
    "Approvers": "approval.ask_attached",
    "AsyncSession": "aio",
    "Call": "model",
    "CannotUndo": "journal.undo",
    "Config": "settings.config_file",
    "ConfigError": "settings.config_file",
    "Dialect": "dialects",
    "DialectError": "dialects",
    "DraftConflict": "drafts.keep",
    "Ending": "agent.loop",
    "Event": "agent.messages",
    "Failure": "model",
    "FileDiff": "model",
    "FileSummary": "drafts.changes",
    "Fleet": "fleet.cluster",
    "FleetResult": "fleet.worker",
    "FleetWorkspace": "fleet.workspaces",
    "History": "agent.history",
    "Journal": "journal",
    "JournalFailed": "journal",
    "Mode": "policy.modes",
    "Model": "agent.providers",
    "ModelError": "agent.providers",
    "NoDraft": "drafts.store",
    "Note": "model",
    "PendingRecord": "journal",
    "Policy": "policy",
    "PolicyError": "policy.files",
    "PolicyFile": "policy.files",
    "Prepared": "pipeline.call_state:Judged",
    "Question": "model",
    "Record": "journal",
    "Restriction": "policy.stricter",
    "Result": "model",
    "Root": "workspace",
    "Session": "pipeline.session",
    "SessionDraft": "pipeline.session_draft",
    "Settings": "settings",
    "Setup": "pipeline.options",
    "Spec": "dialects",
    "SqliteJournal": "journal.store",
    "Token": "journal",
    "ToolError": "errors",
    "Access": "model",
    "CommandAccess": "model",
    "FileAccess": "model",
    "NetworkAccess": "model",
    "ToolAccess": "model",
    "UndoReport": "journal.undo",
    "UnknownCall": "journal.undo_selection",
    "Verdict": "model",
    "AnySession": "pipeline.any_session",
    "connect": "pipeline.remote_session",
    "load_config": "settings.config_file:load",
    "open_model": "agent.providers",
    "parse_rules": "policy.files",
    "system_prompt": "agent.prompt",
    "ReadFile": "tools.functions",
    "RunContext": "tools.functions",
    "WriteFile": "tools.functions",
    "tool": "tools.functions",
    "SessionEvent": "pipeline.events",
    "ToolFinished": "pipeline.events",
    "ToolOutput": "pipeline.events",
    "ToolProgress": "pipeline.events",
    "ToolStarted": "pipeline.events",
}
"""The module of each public name; `module:name` if it has another name there."""

__all__ = [
    "Access",
    "Agent",
    "AgentLimits",
    "AgentSettings",
    "AllowAll",
    "Answer",
    "AnySession",
    "Approve",
    "Approvers",
    "AsyncSession",
    "Call",
    "CannotUndo",
    "CommandAccess",
    "Config",
    "ConfigError",
    "Dialect",
    "DialectError",
    "DraftConflict",
    "Ending",
    "Event",
    "Failure",
    "FileAccess",
    "FileDiff",
    "FileSummary",
    "Fleet",
    "FleetResult",
    "FleetWorkspace",
    "History",
    "Journal",
    "JournalFailed",
    "Mode",
    "Model",
    "ModelError",
    "NetworkAccess",
    "NoDraft",
    "Note",
    "PendingRecord",
    "Policy",
    "PolicyError",
    "PolicyFile",
    "Prepared",
    "Question",
    "ReadFile",
    "Record",
    "Restriction",
    "Result",
    "Root",
    "RunContext",
    "Session",
    "SessionDraft",
    "SessionEvent",
    "Settings",
    "Setup",
    "Spec",
    "SqliteJournal",
    "Token",
    "ToolAccess",
    "ToolError",
    "ToolFinished",
    "ToolOutput",
    "ToolProgress",
    "ToolStarted",
    "UndoReport",
    "UnknownCall",
    "Verdict",
    "WriteFile",
    "connect",
    "load_config",
    "open_model",
    "parse_rules",
    "system_prompt",
    "tool",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'handrail' has no attribute {name!r}")
    from importlib import import_module

    module, _, named = _HOMES[name].partition(":")
    value = getattr(import_module(f"handrail.{module}"), named or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
