"""The agent at a terminal, for `handrail chat` and `handrail run`.

command.py     the options of `handrail chat`
plan.py        what was asked for, checked as far as that is quick
opening.py     the session, the model and the conversation, each opened when it is needed
interrupts.py  Ctrl-C: once stops, twice leaves
approvals.py   questions to a person in the middle of a run
screen.py      what is shown of a run: plainly, or (live.py) on a terminal
events.py      the same as JSON lines, for scripts
blocks.py      a stream of Markdown, cut into blocks that can be rendered
summary.py     one line a call
status.py      tokens, money, the window
early.py       a prompt that is there before the line editor is
editor.py      the line editor; completion.py what it completes
slash.py       /help, /undo and the others; changes.py what they look up in the journal
repl.py        message after message
"""
