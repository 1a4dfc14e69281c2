"""Reading scripts: what bash would run, found without running it. Begin with `script.py`."""
