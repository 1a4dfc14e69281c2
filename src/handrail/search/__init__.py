"""Looking for things: walking a tree, listing it, and searching it with ripgrep or without."""
