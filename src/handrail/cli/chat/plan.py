"""Plan a chat or a run from options, environment and configuration.

The person waits for the prompt. So mistakes are found with cheap checks, and a dialect or the SDK of a model is loaded
only if something looks wrong.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple, cast

import handrail
from handrail.agent.providers import APIS, ModelError, api_of, family, open_model
from handrail.agent.store import NoConversation, Store
from handrail.cli.common import (
    add_dialect,
    add_tools,
    add_workspace,
    list_later,
    list_modes,
    open_config,
    open_dialect,
    parse_count,
    require_directories,
)
from handrail.cli.output import UsageError
from handrail.files.locks import state_directory
from handrail.policy.modes import MODES
from handrail.settings.config_file import find_config
from handrail.text.display import escape

if TYPE_CHECKING:
    from handrail.agent.messages import Turn
    from handrail.agent.providers import Api
    from handrail.agent.store import StoredConversation
    from handrail.policy.modes import Mode
    from handrail.settings.config_file import Config

MODEL_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
}
"""For each package, the variables one of which makes a model reachable."""
_NO_MODEL = 'no model is set: give --model M, set HANDRAIL_MODEL, or write model = "M" below [agent] into {place}'


class ChatPlan(NamedTuple):
    """All that a conversation is opened with."""

    model: str
    api: Api
    window: int
    dialect: str
    mode: Mode
    workspace: str
    state: str
    options: argparse.Namespace
    steps: int
    tokens: int
    price_in: float | None = None
    price_out: float | None = None
    conversation: StoredConversation | None = None
    turns: Sequence[Turn] = ()
    session: str = ""
    """The session under which the journal has the earlier calls of a resumed conversation."""

    @property
    def is_remote(self) -> bool:
        """Whether the workspace is an address, and not a directory of this machine."""
        return bool(getattr(self.options, "at", ""))

    @property
    def directory(self) -> str:
        """The directory of this machine that files of the user's own are written to."""
        return os.getcwd() if self.is_remote else self.workspace


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that `chat` and `run` share."""
    add_workspace(parser)
    parser.add_argument("--model", metavar="M", help="the model (default: $HANDRAIL_MODEL, or the configuration)")
    add_dialect(parser)
    parser.set_defaults(dialect=None)
    add_tools(parser)
    parser.add_argument("--api", metavar="A", help="chat, responses or anthropic (default: by the model's name)")
    mode = parser.add_argument(
        "--mode", metavar="MODE", type=_parse_mode, help="what is allowed without asking; by default ask"
    )
    list_later(mode, list_modes)
    parser.add_argument("--window", metavar="N", type=parse_count, help="the context window of the model, in tokens")
    parser.add_argument(
        "--max-turns",
        "--max-steps",
        dest="max_turns",
        metavar="N",
        type=parse_count,
        default=100,
        help="most replies of the model per task (default: 100)",
    )
    parser.add_argument("--max-tokens", metavar="N", type=parse_count, default=0, help="most tokens per task")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--continue", dest="go_on", action="store_true", help="continue the last conversation in this project"
    )
    which.add_argument("--resume", metavar="ID", help="continue this conversation; `handrail chat --list` lists them")


def _parse_mode(word: str) -> str:
    if word not in MODES:
        raise argparse.ArgumentTypeError(f"unknown mode {word}; the modes are {', '.join(MODES)}")
    return word


def make_plan(options: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> ChatPlan:
    """Check the options and return the plan; raises `UsageError` with the fix."""
    config = open_config()
    require_directories(options)
    workspace = getattr(options, "at", "") or os.path.realpath(options.workspace)
    state = state_directory(config.settings.state)
    resumed = _resume(options, workspace, state) if options.go_on or options.resume is not None else None
    model = options.model or (resumed[1] if resumed else "") or environ.get("HANDRAIL_MODEL") or config.agent.model
    if not model:
        from handrail.cli.chat import discovery  # asks servers; a model that is set needs none of it

        otherwise = _NO_MODEL.format(place=escape(config.path or find_config(environ)))
        model = discovery.use(discovery.choose_model(environ, otherwise))
    plan = _choose_model(model, options, config, environ, workspace, state, resumed[2] if resumed else "")
    if not resumed:
        return plan
    mode = options.mode or (cast("Mode", resumed[5]) if resumed[5] in list_modes() else plan.mode)
    return plan._replace(conversation=resumed[0], turns=resumed[3], session=resumed[4], mode=mode)


def _choose_model(
    model: str,
    options: argparse.Namespace,
    config: Config,
    environ: Mapping[str, str],
    workspace: str,
    state: str,
    dialect: str,
) -> ChatPlan:
    own = config.agent
    ours = own.model in (None, model)  # what is configured for a model does not hold for another one
    api = options.api or (own.api if ours else None) or api_of(model, environ)
    if api not in APIS:
        raise UsageError(f"--api: unknown API {escape(api)}; the APIs are {', '.join(APIS)}")
    dialect = options.dialect or dialect or family(model).dialect
    _require_dialect(dialect)
    plan = ChatPlan(
        model=model,
        api=cast("Api", api),
        window=options.window or (own.window if ours else None) or family(model).window,
        dialect=dialect,
        mode=options.mode or "ask",
        workspace=workspace,
        state=state,
        options=options,
        steps=options.max_turns,
        tokens=options.max_tokens,
        price_in=own.price_in if ours else None,
        price_out=own.price_out if ours else None,
    )
    require_reachable(model, plan.api, environ)
    return plan


def require_reachable(model: str, api: Api, environ: Mapping[str, str]) -> None:
    """Whether a request could be made at all: a package, and a key or an address. Raises `UsageError`."""
    package = "anthropic" if api == "anthropic" else "openai"
    variable = MODEL_VARIABLES[package][-1]
    if (base := environ.get(variable)) and not base.startswith(("http://", "https://")):
        raise UsageError(f"{variable} is {escape(base)}, which is not a URL; it must start with http:// or https://")
    if find_spec(package) and any(environ.get(name) for name in MODEL_VARIABLES[package]):
        return
    try:
        open_model(model, environ, api)  # says what is missing, and how to fix it
    except ModelError as error:
        raise UsageError(str(error)) from None


def _require_dialect(name: str) -> None:
    ours = os.path.join(os.path.dirname(handrail.__file__), "dialects", name)
    if not any(os.path.isfile(os.path.join(folder, "tools.toml")) for folder in (ours, name)):
        open_dialect(name)  # one of another package; or it says that there is none


def _resume(
    options: argparse.Namespace, workspace: str, state: str
) -> tuple[StoredConversation, str, str, list[Turn], str, str]:
    """Load the conversation to resume, with its model, dialect, turns, session and mode."""
    store = Store(state)
    try:
        name = store.last(workspace) if options.go_on else options.resume
        if not name:
            raise NoConversation("--resume needs the id of a conversation")
        conversation, stored, turns = store.load(name)
    except NoConversation as error:
        hint = "leave out --continue to start one" if options.go_on else "`handrail chat --list` lists them"
        raise UsageError(f"{escape(str(error))}; {hint}") from None
    if stored.workspace != workspace:
        raise UsageError(
            f"conversation {stored.id} is about {escape(stored.workspace)}; give -w {escape(stored.workspace)}"
        )
    return conversation, stored.model, stored.dialect, turns, stored.session, stored.mode
