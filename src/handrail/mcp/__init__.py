"""The MCP server: the tools for any client that speaks the Model Context Protocol.

    stdio/          our own loop on the standard library, because a slow start makes clients give up
    http/           the official SDK behind our access check, for several principals
    install/        the entry of the server in the configuration of clients

Both servers share `protocol` (messages and protocol versions), `tool_list` (the tools to offer), `sessions`, `wire.mcp`
(the shapes of tools and results) and `approval.elicitation` (questions to a person). Modules are imported when they are
needed: the imports at the top of `protocol`, `wire.mcp`, `tool_list`, `stdio.channel` and `stdio.server` cost time on
every start.
"""
