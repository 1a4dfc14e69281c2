"""Files: reading in pages, loading for a change, committing a change, locks. All I/O on file contents is in here."""
