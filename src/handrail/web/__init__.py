"""The browser page of `handrail web`: activity, calls, undo, approvals, drafts, statistics. Needs the extra `web`.

serve.py       the socket, and uvicorn until a signal arrives
access.py      who may make a request: token, cookie, Host, Origin; connections.py: and no command of a model
site.py        the parts that the pages share: journal, settings, templates, open questions
pages.py       the routes
questions.py   questions of other processes that wait for an answer
restoring.py   undo with a preview, and older versions of a file
drafts.py      named drafts: compare, keep, drop
statistics.py  figures over time
export.py      a session as one file
diffs.py, ansi.py, plots.py, text.py    diffs, coloured output, plots and text as HTML
"""
