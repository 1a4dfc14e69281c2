"""Askers: each takes a `Question` and returns a person's `Answer`, so each can be the `approve` of a session.

    terminal.py           the person at the terminal of this process (tty.py, screen.py)
    ask_attached.py       people at other terminals: connects to each `handrail approve` that listens, and waits
    attached_terminal.py  the other end: listens, shows questions of other processes, and returns the answers
    json_socket.py        the Unix socket between the two
    elicitation.py        the person behind an MCP client
    acp.py                the person in front of an editor that speaks the Agent Client Protocol

A host's own callback needs no asker: `Session(approve=...)` takes any function from `Question` to `Answer` or bool.
"""
