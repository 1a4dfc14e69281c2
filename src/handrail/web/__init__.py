"""The browser page of `handrail web`: activity, single calls, approvals, statistics, and undo. Needs the extra `web`.

serve.py       the socket, and uvicorn until a signal arrives
access.py      who may make a request: token, cookie, Host, Origin, and no command of a model
site.py        the parts that the pages share: journal, settings, templates, open questions
pages.py       the routes
questions.py   questions of other processes that wait for an answer
diffs.py, ansi.py, plots.py    diffs, coloured output and plots as HTML
"""
