"""MCP: the tools for any client that speaks the Model Context Protocol.

    stdio/          our own loop on the standard library, because start-up decides whether a client offers the tools
    http/           the official SDK behind a gate, for several principals
    install/        the entry of the server in the configuration of clients

All doors share `protocol` (messages and the two eras), `wire` (specs and results as MCP), `offer` (which tools),
`sessions`, and `approval.elicitation` (a person is asked). Nothing is imported before it is needed: what stands at
the top of `protocol`, `wire`, `offer`, `stdio.channel` and `stdio.server` is paid for on every start.
"""
