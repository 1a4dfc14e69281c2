"""Git: what its commands do, what its settings run, which files it tracks, and what is everyday work inside `.git`."""
