"""The project, the scripted model server and the two stories of `handrail demo`.

Nothing in `handrail` imports this package but the command `handrail demo`. The tests use its scripted server as well.
"""
