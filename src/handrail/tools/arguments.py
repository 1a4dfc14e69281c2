"""The base of every tool's `Args`, apart from `tool.py`: pydantic is slow to import, and comes with the first tool."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Arguments(BaseModel):
    """Unknown names are refused, nothing changes after parsing."""

    model_config = ConfigDict(extra="forbid", frozen=True)
