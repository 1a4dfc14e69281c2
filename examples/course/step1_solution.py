"""Solution of step 1: a mistake of the model is an answer, not an exception."""

from __future__ import annotations

import json

from model import call, call_raw, open_model, say
from step1_loop import SCHEMAS, run


def answer(name: str, arguments: str) -> str:
    if name != "uppercase":
        return f"Error: there is no tool {name}. The only tool is uppercase."
    try:
        text = json.loads(arguments)["text"]
    except ValueError as error:
        return f"Error: the arguments are not JSON ({error}). Send them again."
    except (KeyError, TypeError):
        return "Error: send an object with the argument `text`."
    return str(text).upper()


if __name__ == "__main__":
    model = open_model(
        call("shout", text="tea"),
        call_raw("uppercase", '{"text": "te'),
        call("uppercase"),
        call("uppercase", text="tea"),
        say("It is TEA."),
    )
    run("Write 'tea' in capital letters; use the tool.", model, SCHEMAS, answer)
