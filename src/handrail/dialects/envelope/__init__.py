"""Adapters of the dialect `envelope`: tools that differ from those of the engine by more than names and limits."""
