"""smolagents: a session's tools as `Tool` objects, and a callback that shows pictures. Needs the extra `smolagents`.

    agent = ToolCallingAgent(tools(session), model, step_callbacks=[show_pictures])

A call that fails is an observation in the session's words, and never an exception.
"""

from __future__ import annotations

import base64
import io

from handrail.dialects import Spec
from handrail.errors.extras import needs
from handrail.integrations.common import GivenSession, sync_session
from handrail.json_types import JsonMapping, JsonObject
from handrail.wire.images import get_images

with needs("smolagents"):
    from smolagents import ActionStep, MultiStepAgent, Tool

_SIMPLE = ("string", "boolean", "integer", "number", "array", "object", "null")


class SmolagentsTool(Tool):  # type: ignore[misc]  # the package has no types
    """One tool of a session."""

    skip_forward_signature_validation = True
    output_type = "string"

    def __init__(self, session: GivenSession, spec: Spec) -> None:
        self.name, self.description, self.inputs = spec.name, spec.description, inputs(spec.schema)
        self.unseen: list[JsonMapping] = []
        """Pictures that the model has not been shown yet."""
        self._session = sync_session(session)
        super().__init__()

    def forward(self, *positional: object, **named: object) -> str:
        if len(positional) > len(self.inputs):
            raise TypeError(f"{self.name} takes {len(self.inputs)} arguments, not {len(positional)}")
        arguments = dict(zip(self.inputs, positional, strict=False)) | named  # code of an agent may leave names out
        result = self._session.call(self.name, arguments)
        self.unseen += get_images(result)
        return result.full_text


def tools(session: GivenSession) -> list[Tool]:
    """The session's tools, for a `ToolCallingAgent` or a `CodeAgent`."""
    return [SmolagentsTool(session, spec) for spec in sync_session(session).specs()]


def show_pictures(step: ActionStep, agent: MultiStepAgent) -> None:
    """A step callback: add the images since the last step to the observations of this step."""
    from PIL import Image

    for tool in agent.tools.values():
        if isinstance(tool, SmolagentsTool):
            drawn, tool.unseen = tool.unseen, []
            images = [Image.open(io.BytesIO(base64.b64decode(picture["base64"]))) for picture in drawn]
            step.observations_images = [*(step.observations_images or []), *images] or None


def inputs(schema: JsonMapping) -> JsonObject:
    """Convert a JSON schema for smolagents: one type each, or a list, and `nullable` for optional arguments."""
    required = schema.get("required", ())
    converted: JsonObject = {}
    for name, about in schema["properties"].items():
        either = [part for part in about.get("anyOf", ()) if part.get("type") != "null"]
        kinds = [part.get("type", "any") for part in either or [about]]
        kinds = [kind if kind in _SIMPLE else "any" for kind in kinds]
        rest = {key: value for part in (about, *either) for key, value in part.items() if key != "anyOf"}
        converted[name] = {"description": name, **rest, "type": kinds[0] if len(set(kinds)) == 1 else kinds}
        if name not in required:
            converted[name]["nullable"] = True
    return converted
