"""Adapters of the dialect `deepagents`: tools that differ from those of the engine by more than names and limits."""
