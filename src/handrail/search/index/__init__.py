"""Index of the contents of a tree: names the few files that may match a pattern, which ripgrep then searches."""
