"""Drafts: run a command in a copy-on-write view of the workspace, look at its changes, then keep or drop them.

store.py              the directory in which drafts lie, on the mount of their workspace
layers_place.py       a place for their layers, if the workspace lies on an overlay
places.py             private directories, and the mounts that they lie on
layout.py             the files of a draft and its states
foreign_files.py      copy files of other users and groups to a new draft, which commands could not change else
compare.py            the steps that turn the workspace into the draft, and conflicts with other changes
three_way.py          the base of what a draft changes, for merging with other changes
changes.py            the changes of a draft, file by file, with the lines that differ
split.py              move a part of the changes into another draft, to keep that part
view.py               show a draft to a process in the place of the workspace
staging.py            copy changes to the mount of the workspace, if the layers lie elsewhere
keep.py               carry the steps out, finish them after a kill, take them back
git_index.py          compare git index files without the file times in them
neighbours.py         where drafts lie, and which of them have changed a file
"""

IN_DRAFT = "HANDRAIL_DRAFT"
"""The variable with the id of the named draft that a process sees in the place of the workspace."""
WORKERS = ".workers"
"""The end of a file beside a named draft, with the names of the programs that have worked in it."""
