"""`handrail batch`: the contract for drivers in any language, kept whatever they send."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import TIMEOUT, Driver, handrail


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"one\ntwo\nthree\n")
    return folder


@pytest.fixture
def driver(project: Path) -> Iterator[Driver]:
    driver = Driver(cwd=project)
    yield driver
    driver.close()


def test_batch_answers_each_line_before_the_next_is_sent_in_one_session(driver: Driver, project: Path) -> None:
    edit = {"tool": "Edit", "arguments": {"file_path": "a.txt", "old_string": "two", "new_string": "2"}}
    write = {"tool": "Write", "arguments": {"file_path": "a.txt", "content": "2"}}
    assert driver.ask({"id": 1, **write})["error"]["code"] == "not_seen"
    read = driver.ask({"id": 2, "tool": "Read", "arguments": {"file_path": "a.txt"}})
    assert (read["id"], read["status"], read["text"]) == (2, "ok", "1\tone\n2\ttwo\n3\tthree")
    assert read["blocks"] == [{"type": "text", "text": read["text"]}] and read["stats"]["time_ms"] > 0
    assert driver.ask({"id": 3, **edit})["status"] == "ok"
    assert driver.ask({"id": 4, "tool": "Read", "arguments": {"file_path": "../x"}})["status"] == "denied"
    assert driver.end() == (0, b"", b"")
    assert (project / "a.txt").read_bytes() == b"one\n2\nthree\n"


def test_an_id_comes_back_whatever_it_is(driver: Driver) -> None:
    for sent in (7, "x", "é\ud800", "", None, [1, {"a": None}], {"b": 1.5}, True, 10**30):
        for call in ({"tool": "Read", "arguments": {"file_path": "a.txt"}}, {"tool": 5}):
            assert ascii(driver.ask({"id": sent, **call})["id"]) == ascii(sent)
    assert driver.ask({"tool": "Read", "arguments": {"file_path": "a.txt"}})["id"] is None


def test_a_malformed_line_gets_an_error_line_and_the_session_goes_on(driver: Driver) -> None:
    for line, code, message in [
        (b"{", "bad_json", "not valid JSON"),
        (b"nonsense", "bad_json", "not valid JSON"),
        (b'{"tool": "Read", "arguments": {"file_path": "\xff"}}', "bad_json", "not UTF-8 (byte 46 is 0xff)"),
        (b'{"id": NaN, "tool": "Read"}', "bad_json", "NaN"),
        (b'{"id": 1e999, "tool": "Read"}', "bad_json", "too large"),
        (b"[" * 100_000, "bad_json", "nested too deeply"),
        (b'{"id": ' + b"9" * 10_000 + b"}", "bad_json", "not valid JSON"),
        (b"[1]", "bad_arguments", "The line is an array"),
        (b"null", "bad_arguments", "The line is null"),
        (b"{}", "bad_arguments", '"tool" is missing'),
        (b'{"tool": ""}', "bad_arguments", '"tool" is empty'),
        (b'{"tool": ["Read"]}', "bad_arguments", '"tool" is an array'),
        (b'{"tool": "Read", "arguments": "{}"}', "bad_arguments", '"arguments" is a string'),
        (b'{"tool": "Read", "args": {}}', "bad_arguments", '"args" is not known'),
        (b'{"tool": "Read"}', "bad_arguments", "file_path: missing"),
        (b'{"tool": "Read", "arguments": null}', "bad_arguments", "file_path: missing"),
        (b'{"tool": "Fly", "arguments": {}}', "unknown_tool", "Read"),
    ]:
        answer = driver.ask(line)
        assert (answer["status"], answer["error"]["code"]) == ("error", code), line[:40]
        assert message in answer["error"]["message"] and answer["text"] == answer["error"]["message"]
    assert driver.ask({"tool": "Read", "arguments": {"file_path": "a.txt"}})["status"] == "ok"
    assert driver.end() == (0, b"", b"")


def test_batch_reads_a_file_skips_blank_lines_and_needs_no_last_newline(project: Path) -> None:
    call = b'{"tool": "Read", "arguments": {"file_path": "a.txt"}}'
    (project / "calls.jsonl").write_bytes(b"\xef\xbb\xbf" + call + b"\r\n\n  \n" + call)
    completed = handrail("batch", "calls.jsonl", cwd=project)
    assert completed.returncode == 0
    assert [json.loads(line)["status"] for line in completed.stdout.splitlines()] == ["ok", "ok"]


def test_a_line_beyond_64_megabytes_is_refused_and_skipped(project: Path) -> None:
    with open(project / "calls.jsonl", "wb") as file:
        file.truncate(70 << 20)
        file.seek(0, os.SEEK_END)
        file.write(b'\n{"id": 2, "tool": "Read", "arguments": {"file_path": "a.txt"}}\n')
    completed = handrail("batch", "calls.jsonl", cwd=project)
    long, read = (json.loads(line) for line in completed.stdout.splitlines())
    assert long["error"]["code"] == "bad_json" and "64 MB" in long["text"]
    assert (completed.returncode, read["id"], read["status"]) == (0, 2, "ok")


def test_answers_are_ascii_and_well_formed_whatever_is_in_the_files(driver: Driver, project: Path) -> None:
    (project / "é\n.txt").write_bytes("\u2028 \U0001f600 \x85\n".encode())
    assert driver.process.stdin and driver.process.stdout
    for name in ("é\n.txt", "half \ud83d.txt"):
        call = {"tool": "Read", "arguments": {"file_path": name}}
        driver.process.stdin.write(json.dumps(call).encode() + b"\n")
        driver.process.stdin.flush()
        line = driver.process.stdout.readline()
        assert line.isascii() and line.count(b"\n") == 1
        json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8")


def test_batch_ends_quietly_when_nobody_reads_its_answers(driver: Driver) -> None:
    driver.ask({"tool": "Read", "arguments": {"file_path": "a.txt"}})
    assert driver.process.stdin and driver.process.stdout and driver.process.stderr
    driver.process.stdout.close()
    driver.process.stdin.write(b'{"tool": "Read", "arguments": {"file_path": "a.txt"}}\n')
    driver.process.stdin.flush()
    assert driver.process.wait(TIMEOUT) == 0
    assert driver.process.stderr.read() == b""


def test_an_interrupted_batch_exits_130_without_a_traceback(driver: Driver) -> None:
    driver.ask({"tool": "Read", "arguments": {"file_path": "a.txt"}})
    driver.process.send_signal(signal.SIGINT)
    assert driver.process.wait(TIMEOUT) == 130
    assert driver.end() == (130, b"", b"")
