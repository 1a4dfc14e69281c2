"""Drafts: run a command in a copy-on-write view of the workspace, look at its changes, then keep or drop them.

layout.py   the files of a draft and its states
compare.py  the steps that turn the workspace into the draft, and conflicts with changes made outside meanwhile
keep.py     carry the steps out, finish them after a kill, take them back
"""
