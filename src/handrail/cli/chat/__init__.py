"""The agent at a terminal, for `handrail chat` and `handrail run`.

command.py     the options of `handrail chat`
plan.py        options, environment and configuration, checked as far as that is quick
opening.py     the session, the model and the conversation, each opened when it is needed
interrupts.py  Ctrl-C: once stops, twice quits
approvals.py   questions to a person in the middle of a run
screen.py      the output of a run: plain, or (live_display.py) on a terminal
events.py      the same as JSON lines, for scripts
blocks.py      a stream of Markdown, cut into blocks that can be rendered
summary.py     one line a call
status.py      tokens, money, the window
first_prompt.py a prompt before the composer is loaded
composer.py    the line editor below the output; completion.py its completions
message_queue.py  messages that wait for the agent
diff_view.py   diffs with line numbers and marked words
resumed_turns.py the end of a conversation that is resumed
rewind.py      back to before a message; own_command.py `!make`; attachments.py `@file`; export.py `/export`
slash.py       /help, /undo and the others; changes.py their journal queries
repl.py        message after message
"""
