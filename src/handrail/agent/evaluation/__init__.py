"""The evaluation: small tasks with a check of the resulting tree, for any model and any set of tools.

tasks/*.toml   the tasks: files, prompt, what may change, the right result, and the script of a careless model
tasks.py       read a task, build its tree, judge what became of it
scripted.py    the scripted model: plays a task's steps with whatever tools it is offered
workers.py     who does the tasks: our agent in a dialect, or another agent by its command line
agents.toml    the command lines of other agents
"""
