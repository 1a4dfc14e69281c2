"""Transport of remote sessions: messages over one byte pipe to a `handrail serve` beside the files.

`address.py` turns a URL into the command that starts the server, `frames.py` cuts messages into frames, and `client.py`
keeps the connection: requests by number, heartbeats, and the end of a far side that died.
"""
