"""Adapters of the dialect `codex`: tools that differ from those of the engine by more than names and limits."""
