"""The entry of the server in the configuration files of MCP clients."""
