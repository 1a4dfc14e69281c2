"""Adapters of the dialect `hello`: tools that differ from those of the engine by more than names and limits."""
