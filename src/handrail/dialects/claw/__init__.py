"""Adapters of the dialect `claw`: tools that differ from those of the engine by more than names and limits."""
