"""Judge the commands of a parsed script: their files, and the network. Begin with `effects.py`."""
