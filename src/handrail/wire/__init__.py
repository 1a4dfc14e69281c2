"""Tool definitions and results in the shapes of the model APIs and of MCP, one module a protocol.

Pure functions on plain values, shared by the command line, the agent, the MCP server and the integrations.
"""
