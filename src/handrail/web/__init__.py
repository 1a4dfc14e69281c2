"""The browser page of `handrail web`: timeline, calls, undo, questions, drafts, figures.

serve.py       the socket, and uvicorn until a signal arrives
access.py      who may make a request: token, cookie, Host, Origin; connections.py: no other user, no command of a model
site.py        the parts that the pages share: journal, settings, templates, open questions
pages.py       the routes
*_pages.py     the pages of the timeline, calls, questions, drafts, and over many calls
requests.py    filters, numbers and forms in a request
questions.py   questions of other processes that wait for an answer
restoring.py   undo with a preview, and older versions of a file
drafts.py      named drafts: compare, keep, drop
statistics.py  figures over time
export.py      a session as one file
sentences.py   a call as a sentence
diffs.py, ansi.py, plots.py, text.py, plain.py    diffs, coloured output, plots, text and plain pages as HTML
"""
