"""Attach Handrail to other agents: their own commands run in drafts, and their own edits are recorded.

`client/` is the program that hooks and wrapped commands start: the standard library, and nothing else. `service.py` is
the resident helper behind it, `contracts.py` knows the hooks of each agent, `agents.py` handles their events in a
session for each conversation, and `wrapped.py` is the channel of a command.
"""
