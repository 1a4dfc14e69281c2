"""Runs a script in which each tool is a function; started in the sandbox, it imports nothing of Handrail."""

import json
import socket
import sys


class CallFailed(Exception):
    """A call failed or was refused; its text says why."""


class AnswerText(str):
    """The text of an answer; ``data`` has the same for programs."""

    data: dict[str, object]


def main(fd: int) -> None:
    with socket.socket(fileno=fd) as connection, connection.makefile("rwb") as stream:
        connection.set_inheritable(False)
        start = json.loads(stream.readline())

        def make(tool: str, order: list[str]) -> object:
            def function(*args: object, **named: object) -> AnswerText:
                if len(args) > len(order):
                    raise TypeError(f"{tool} takes {len(order)} arguments: {', '.join(order)}")
                call = {"tool": tool, "arguments": {**dict(zip(order, args, strict=False)), **named}}
                stream.write(json.dumps(call).encode() + b"\n")
                stream.flush()
                reply = json.loads(
                    stream.readline() or '{"status": "error", "text": "the script was ended", "blocks": []}'
                )
                more = [block["text"] for block in reply["blocks"][1:] if block["type"] == "text"]
                text = "\n\n".join([reply["text"], *more])
                if reply["status"] not in ("ok", "partial"):
                    raise CallFailed(text)
                answer = AnswerText(text)
                answer.data = reply["data"]
                return answer

            return function

        names = {name: make(tool, order) for name, (tool, order) in start["tools"].items()}
        given = {"__name__": "__main__", "CallFailed": CallFailed, **names}
        exec(compile(start["code"], "script", "exec"), given)  # noqa: S102 - in the sandbox


if __name__ == "__main__":
    main(int(sys.argv[1]))
