"""The HTTP server: streamable HTTP on Starlette, behind our own check of tokens, hosts and origins."""
