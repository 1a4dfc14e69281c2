"""Adapters of the dialect `claude`: tools that differ from those of the engine by more than names and limits."""
