"""Many workspaces at once, on this machine or on a cluster of Ray: the same tools in each, and every edit once.

`workspaces.py` builds a workspace from a folder, a git commit or a tar; `worker.py` runs a function with a session in
it; `cluster.py` has Ray do that for many, with retries and limits.
"""
