"""`handrail mcp install`: the entry of the server in the configuration of other programs."""
