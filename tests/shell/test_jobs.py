"""Jobs: commands in the background that can be read, written to, ended and listed."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import ToolError
from handrail.shell.runner import jobs as module
from handrail.shell.runner.jobs import Job, JobOutput, Jobs
from handrail.shell.runner.run import CommandOrder, Runs
from handrail.shell.sandbox.environment import make_unattended
from tests.command import TIMEOUT


@pytest.fixture
def runs() -> Iterator[Runs]:
    runs = Runs()
    yield runs
    runs.close()


@pytest.fixture
def jobs(runs: Runs) -> Jobs:
    return Jobs(runs)


@pytest.fixture
def order(tmp_path: Path) -> Callable[..., CommandOrder]:
    number = itertools.count()

    def make(command: str, **options: Any) -> CommandOrder:
        settings = {"env": make_unattended(os.environ), "cwd": str(tmp_path), "grace": 0.3, **options}
        return CommandOrder(command, str(tmp_path / f"{next(number)}.log"), **settings)

    return make


Make = Callable[..., CommandOrder]


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)


def text(reading: JobOutput) -> str:
    return reading.view.text("[...]")


def size(job: Job) -> int:
    return os.stat(job.run.order.log).st_size


def test_a_job_is_read_as_it_goes_and_each_line_once(jobs: Jobs, order: Make) -> None:
    job = jobs.start(order("echo one; read x; echo two; read x; echo three", stdin=True))
    assert job.running and jobs.list() == [job]
    until(lambda: size(job) == 4)
    assert text(jobs.read(job.id, 100, 100)) == "one\n"
    assert text(jobs.read(job.id, 100, 100)) == ""
    assert jobs.write(job.id, "go\n") == 3
    until(lambda: size(job) == 8)
    assert text(jobs.read(job.id, 100, 100)) == "two\n"
    jobs.write(job.id, "go\n")
    until(lambda: not job.running)
    last = jobs.read(job.id, 100, 100)
    assert text(last) == "three\n" and last.ended is not None and last.ended.exit_code == 0
    assert text(jobs.read(job.id, 100, 100, all=True)) == "one\ntwo\nthree\n"
    assert Path(job.run.order.log).read_bytes() == b"one\ntwo\nthree\n"


def test_only_the_beginning_or_the_end_may_be_asked_for(jobs: Jobs, order: Make) -> None:
    job = jobs.start(order("seq 1000 1999"))
    until(lambda: not job.running)
    assert text(jobs.read(job.id, 10, 0, all=True)) == "1000\n1001\n[...]"
    assert text(jobs.read(job.id, 0, 10, all=True)) == "[...]1998\n1999\n"


def test_a_filter_lets_lines_through(jobs: Jobs, order: Make) -> None:
    job = jobs.start(order("seq 1 1000; printf '\\033[31merror\\033[0m: bad\\n'"))
    until(lambda: not job.running)
    reading = jobs.read(job.id, 1000, 1000, filter=r"^error|^9\d9$")
    assert text(reading) == "909\n919\n929\n939\n949\n959\n969\n979\n989\n999\nerror: bad\n"
    assert reading.matched == 11 and not reading.more
    reading = jobs.read(job.id, 8, 11, filter=r"^error|^9\d9$", all=True)
    assert text(reading) == "909\n919\n[...]error: bad\n"
    assert (reading.view.omitted_lines, reading.view.omitted_bytes) == (8, 32)


def test_a_bad_filter_and_an_endless_one_are_refused(jobs: Jobs, order: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    job = jobs.start(order(f"echo {'a' * 5000}b"))
    until(lambda: not job.running)
    with pytest.raises(ToolError) as failure:
        jobs.read(job.id, 10, 10, filter="(")
    assert failure.value.code == "bad_filter"
    monkeypatch.setattr(module, "FILTER_SECONDS", 0.2)
    with pytest.raises(ToolError) as failure:
        jobs.read(job.id, 10, 10, filter=r"(?:a?){40}a{40}[cd]")
    assert failure.value.code == "slow_filter"
    assert text(jobs.read(job.id, 10, 0)).startswith("aaaaaaaaaa")


def test_half_a_character_waits_for_the_rest(jobs: Jobs, order: Make) -> None:
    job = jobs.start(order(r"printf 'a\xe4\xbd'; read x; printf '\xa0b\x1b[3'; read x; printf '1mc'", stdin=True))
    until(lambda: size(job) == 3)
    assert text(jobs.read(job.id, 100, 100)) == "a"
    jobs.write(job.id, "\n")
    until(lambda: size(job) == 8)
    assert text(jobs.read(job.id, 100, 100)) == "你b".replace("你", "\u4f60")
    jobs.write(job.id, "\n")
    until(lambda: not job.running)
    assert text(jobs.read(job.id, 100, 100)) == "c"


def test_a_prompt_without_newline_is_shown(jobs: Jobs, order: Make) -> None:
    job = jobs.start(order("printf 'Name? '; read x; echo hello $x", stdin=True))
    until(lambda: size(job) == 6)
    assert text(jobs.read(job.id, 100, 100)) == "Name? "
    jobs.write(job.id, "you\n")
    until(lambda: not job.running)
    assert text(jobs.read(job.id, 100, 100)) == "hello you\n"


def test_stdin_may_be_closed(jobs: Jobs, order: Make) -> None:
    job = jobs.start(order("wc -c", stdin=True))
    assert jobs.write(job.id, "12345", close=True) == 5
    until(lambda: not job.running)
    assert text(jobs.read(job.id, 100, 100)).strip() == "5"
    with pytest.raises(ToolError) as failure:
        jobs.write(job.id, "more")
    assert failure.value.code == "stdin_closed" and not failure.value.facts["running"]


def test_a_job_without_stdin_cannot_be_written_to(jobs: Jobs, order: Make) -> None:
    job = jobs.start(order("sleep 1000"))
    with pytest.raises(ToolError) as failure:
        jobs.write(job.id, "x")
    assert failure.value.code == "stdin_closed" and failure.value.facts["wanted"] is False


def test_a_job_that_does_not_read_takes_what_fits(jobs: Jobs, order: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WRITE_SECONDS", 0.1)
    job = jobs.start(order("sleep 1000", stdin=True))
    assert 0 < jobs.write(job.id, "x" * 3_000_000) < 3_000_000


def test_a_job_that_closed_its_stdin_says_so(jobs: Jobs, order: Make) -> None:
    job = jobs.start(order("exec <&-; echo closed; sleep 1000", stdin=True))
    until(lambda: size(job) == 7)
    with pytest.raises(ToolError):
        jobs.write(job.id, "x")


def test_a_killed_job_is_over_with_all_that_it_started(jobs: Jobs, order: Make) -> None:
    job = jobs.start(order("setsid -f sleep 1000; sleep 1000 & echo $!; wait"))
    until(lambda: size(job) > 0)
    ended = jobs.kill(job.id)
    assert ended.cancelled and not job.running and not ended.survivors
    child = int(text(jobs.read(job.id, 100, 100)))
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert jobs.kill(job.id) is ended


@pytest.mark.skipif(sys.platform != "linux", reason="strays are known on Linux only")
def test_killing_a_job_that_is_over_ends_what_it_left(jobs: Jobs, order: Make) -> None:
    job = jobs.start(order("sleep 1000 & exit 3"))
    until(lambda: not job.running)
    assert job.ended is not None
    [stray] = job.ended.strays
    assert jobs.kill(job.id).exit_code == 3
    assert not Path(f"/proc/{stray.pid}").exists()


def test_a_job_has_a_timeout_if_it_was_given_one(jobs: Jobs, order: Make) -> None:
    job = jobs.start(order("echo hi; sleep 1000"), timeout=0.3)
    until(lambda: not job.running)
    assert job.ended is not None and job.ended.timed_out


def test_a_command_whose_time_is_up_runs_on_as_a_job(order: Make) -> None:
    runs = Runs()
    jobs = Jobs(runs)
    run = runs.start(order("echo early; read x; echo late", stdin=True))
    while not run.pipes.view(100, 100).size:
        assert run.wait(timeout=time.monotonic() - run.started + 0.05, keep=True) is None
    job = jobs.keep(run, shown=run.pipes.view(100, 100).size)
    jobs.write(job.id, "\n")
    until(lambda: not job.running)
    assert text(jobs.read(job.id, 100, 100)) == "late\n"
    runs.close()


def test_an_unknown_job_is_refused_with_the_known_ones(jobs: Jobs, order: Make) -> None:
    job = jobs.start(order("true"))
    with pytest.raises(ToolError) as failure:
        jobs.read("job-99", 1, 1)
    assert failure.value.code == "no_such_job" and failure.value.facts["known"] == [job.id]


def test_the_number_of_jobs_is_bounded(jobs: Jobs, order: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RUNNING", 2)
    monkeypatch.setattr(module, "MOST_KEPT", 3)
    first = [jobs.start(order("sleep 1000")) for _ in range(2)]
    with pytest.raises(ToolError) as failure:
        jobs.start(order("true"))
    assert failure.value.code == "too_many_jobs"
    for job in first:
        jobs.kill(job.id)
    for _ in range(5):
        jobs.start(order("true"))
        until(lambda: not jobs.list()[-1].running)
    assert len(jobs.list()) == 3


def test_jobs_end_with_the_session(jobs: Jobs, runs: Runs, order: Make) -> None:
    started = [jobs.start(order("trap '' TERM; echo $$; while :; do sleep 1000; done")) for _ in range(5)]
    until(lambda: all(size(job) for job in started))
    runs.close()
    for job in started:
        assert job.ended is not None and job.ended.reason == "closed"
        with pytest.raises(ProcessLookupError):
            os.kill(job.run.pid, 0)


def test_the_output_of_jobs_is_moved_while_nobody_asks(jobs: Jobs, order: Make) -> None:
    job = jobs.start(order("head -c 5000000 /dev/zero; echo end"))
    until(lambda: not job.running)
    assert size(job) == 5_000_004
