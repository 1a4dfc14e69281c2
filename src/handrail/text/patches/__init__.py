"""Parse patches and locate their hunks in a file."""
