"""Ask the person in front of an editor, by `session/request_permission` of the Agent Client Protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from handrail.errors import CallbackFailed, CallCancelled
from handrail.errors.extras import needs
from handrail.model import Access, Answer, FileDiff, Lasting, Question

with needs("acp"):
    import acp
    from acp.helpers import ToolCallContentVariant
    from acp.schema import AllowedOutcome, PermissionOption, ToolCallLocation, ToolCallUpdate, ToolKind

Content = list[ToolCallContentVariant]
_YES: Mapping[str, Lasting] = {"allow_once": "once", "allow_session": "session", "allow_always": "always"}


async def ask(question: Question, client: acp.Client, session_id: str, kind: ToolKind) -> Answer:
    """Show the call in the editor, and wait for the person's choice there.

    Raises `CallCancelled`, and `CallbackFailed` if the editor cannot ask.
    """
    call, accesses = question.call, question.accesses
    shown = ToolCallUpdate(
        tool_call_id=call.id,
        title=make_title(call.tool, accesses),
        kind=kind,
        status="pending",
        content=make_diffs(question.files, accesses) or [acp.tool_content(acp.text_block(question.preview()))],
        locations=list_locations(accesses),
        raw_input=dict(call.arguments),
    )
    try:
        reply = await client.request_permission(
            session_id=session_id, tool_call=shown, options=_list_options(question.verdict.allow)
        )
    except (acp.RequestError, ConnectionError) as error:
        raise CallbackFailed(callback="session/request_permission", why=str(error)) from error
    if not isinstance(reply.outcome, AllowedOutcome):
        raise CallCancelled
    lasting = _YES.get(reply.outcome.option_id)
    return Answer(False) if lasting is None else Answer(True, lasting=lasting)


def _list_options(rule: str) -> list[PermissionOption]:
    options = [PermissionOption(option_id="allow_once", name="Allow", kind="allow_once")]
    if rule:
        options += [
            PermissionOption(option_id="allow_session", name="Allow for this session", kind="allow_always"),
            PermissionOption(option_id="allow_always", name=f"Always allow: {rule}", kind="allow_always"),
        ]
    return [*options, PermissionOption(option_id="reject_once", name="Reject", kind="reject_once")]


def make_title(tool: str, accesses: Sequence[Access]) -> str:
    """One line that names a call."""
    if not accesses:
        return tool
    return f"`{accesses[0].target}`" if accesses[0].action == "run" else f"{tool} {accesses[0].target}"


def list_locations(accesses: Sequence[Access], line: int | None = None) -> list[ToolCallLocation]:
    """The files that a tool itself comes to."""
    files = dict.fromkeys(access.path for access in accesses if access.path and not access.by_command)
    return [ToolCallLocation(path=path, line=line) for path in files]


def make_diffs(files: Sequence[FileDiff], accesses: Sequence[Access]) -> Content:
    """The proposed changes, file by file; files that are not text are left out."""
    paths = {access.target: access.path for access in accesses if not access.by_command}
    return [
        acp.tool_diff_content(paths[file.path], file.after or "", file.before)
        for file in files
        if (file.created or file.before is not None) and (file.deleted or file.after is not None)
    ]
