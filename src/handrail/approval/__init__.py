"""Askers: each takes a `Question` and returns a person's `Answer`, so each can be the `approve` of a session.

    terminal.py      the person at the terminal of this process (tty.py, screen.py)
    client.py        a person at another terminal: asks over a Unix socket who has attached there
    server.py        the other end of that socket, on which `handrail approve` is built
    elicitation.py   the person behind an MCP client
    acp.py           the person in front of an editor that speaks the Agent Client Protocol

A host's own callback needs no asker: `Session(approve=...)` takes any function from `Question` to `Answer` or bool.
"""
