"""Shell commands: what a command line says, found in its syntax tree and never by patterns over its text."""
