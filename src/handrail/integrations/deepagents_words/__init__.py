"""The dialect in which the deepagents backend and its session talk."""
