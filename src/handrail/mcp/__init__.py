"""MCP: the tools for any client that speaks the Model Context Protocol.

`stdio` is our own loop on the standard library, because start-up decides whether a client offers the tools at all.
`wire` turns specs and results into MCP, for every door. Nothing here is imported before it is needed: what stands at
the top of `protocol`, `wire`, `offer`, `channel` and `stdio` is paid for on every start.
"""
