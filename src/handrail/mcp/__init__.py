"""The MCP server: the tools for any client that speaks the Model Context Protocol.

    stdio/          our own loop on the standard library, because a slow start makes clients give up
    http/           streamable HTTP on Starlette, for several principals
    install/        the entry of the server in the configuration of clients

Both servers share everything between reading a request and writing a message: `protocol` (messages and versions),
`requests` (what needs no call), `calls` with `running_calls` and `sessions`, `tool_list`, `wire.mcp` (the shapes of
tools and results) and `approval.elicitation` (questions to a person). Modules are imported when they are needed: the
imports at the top of `protocol`, `requests`, `wire.mcp`, `tool_list`, `stdio.channel` and `stdio.server` cost time on
every start.
"""
