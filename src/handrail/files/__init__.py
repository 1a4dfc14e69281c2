"""Read files in pages, load them for a change, commit changes, lock paths. All I/O on file contents is here."""
