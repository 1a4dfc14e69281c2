"""The agent: a loop that gives a model the tools of a session. It knows models and sessions, and no terminal.

messages.py        turns of a conversation, tool calls and results, events
loop.py            ask the model, make the calls it asks for, repeat until it is done
model_requests.py  one request: cancelled when a person stops it, repeated when that helps
tool_calls.py      the calls of one reply: in parallel where their files differ, else in order
compaction.py      shorten a conversation that grows too long for the model's window
prompt.py          the system prompt
store.py           conversations that survive the program
providers/         Chat Completions, Responses, Anthropic Messages
acp/               the agent for editors, over the Agent Client Protocol
"""
