"""The HTTP server: the official SDK behind our own check of tokens, hosts and origins."""
