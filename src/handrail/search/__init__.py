"""Walk a tree, list it and search it, with or without ripgrep."""
