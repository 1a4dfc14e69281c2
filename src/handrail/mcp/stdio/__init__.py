"""The MCP server on stdio: our own loop on the standard library, because clients do not wait long for tools."""
