"""The agent: a loop that gives a model hands. It knows models and the session, and no terminal.

talk.py        the nouns: turns of a conversation, events
loop.py        ask the model, make the calls it wants, again until it is done
asking.py      one request: given up when somebody cancels, tried again when that helps
hands.py       the calls of one reply: at once where they do not touch the same, in order where they do
compaction.py  a conversation that grows too long for the model's window
prompt.py      what the model is told before anything else
store.py       conversations that survive the program
providers/     Chat Completions, Responses, Messages
"""
