"""The user's configuration: where it is looked for, what it sets, and how each mistake is named."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

import pytest

from handrail import Root, Settings
from handrail.settings.config_file import Config, ConfigError, find_config, load


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def loaded(file: Path, text: str | bytes) -> Config:
    file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return load({"HANDRAIL_CONFIG": str(file)})


def test_the_file_is_named_by_the_variable_or_lies_in_the_xdg_directory_or_below_home() -> None:
    assert find_config({"HANDRAIL_CONFIG": "mine.toml", "XDG_CONFIG_HOME": "/xdg", "HOME": "/h"}) == "mine.toml"
    assert find_config({"HANDRAIL_CONFIG": "", "XDG_CONFIG_HOME": "/xdg", "HOME": "/h"}) == "/xdg/handrail/config.toml"
    assert find_config({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}) == "/h/.config/handrail/config.toml"
    assert find_config({"HOME": "/h"}) == "/h/.config/handrail/config.toml"


def test_a_missing_or_empty_file_changes_nothing(file: Path) -> None:
    assert load({"HANDRAIL_CONFIG": str(file)}) == Config()
    assert load({"HANDRAIL_CONFIG": str(file / "below")}) == Config()
    assert load({"HANDRAIL_CONFIG": os.devnull}) == Config(path=os.devnull)
    assert loaded(file, "") == Config(path=str(file))


def test_every_setting_can_be_set(file: Path, tmp_path: Path) -> None:
    wanted = Settings(
        durable=False,
        hard_links="through",
        matching="ladder",
        legacy_encoding="cp1252",
        most_edit_bytes=1,
        read_seconds=2.5,
        lock_seconds=3.0,
        answer_chars=4,
        sandbox="landlock",
        sandbox_required=True,
        drafts=False,
        index=False,
        network="on",
        keep_env=("A", "B_*"),
        most_processes=7,
        artefact_bytes=8,
        journaling="require",
        journal="postgresql://node@host/records?tenant=team",
        journal_bytes=9,
        journal_calls=2000,
        redact_values_from_env=("A",),
        redact_patterns=("key-[0-9]+",),
        redact_files=(str(tmp_path / "keys"),),
        state=str(tmp_path),
        raise_bugs=True,
    )
    written = {
        True: "true",
        False: "false",
    }
    rows = []
    for field in fields(Settings):
        value = getattr(wanted, field.name)
        assert value != getattr(Settings(), field.name), f"this test says nothing about {field.name}"
        plain = [*value] if isinstance(value, tuple) else value
        rows.append(f"{field.name} = {written[value] if isinstance(value, bool) else repr(plain)}")
    assert loaded(file, "[settings]\n" + "\n".join(rows)).settings == wanted


def test_whole_numbers_serve_as_seconds(file: Path) -> None:
    assert loaded(file, "[settings]\nread_seconds = 3").settings.read_seconds == 3.0


def test_roots_are_read_only_unless_they_say_otherwise(file: Path) -> None:
    text = '[[roots]]\npath = "/srv/library"\n[[roots]]\npath = "~/notes"\nwritable = true\n'
    assert loaded(file, text).roots == (Root("/srv/library", False), Root(os.path.expanduser("~/notes"), True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[settings\n", "not valid TOML: Expected ']'"),
        (b"x = '\xff'", "byte 6 is not UTF-8"),
        ("x = " + "9" * 5000, "not valid TOML"),
        ("x = " + "[" * 50_000, "nested too deeply"),
        ("#" * (1 << 20) + "##", "more than 1 MB"),
        ("setting = 1", "setting: unknown key; did you mean settings?"),
        ("colour = 1", "colour: unknown key; the keys are settings, roots"),
        ("'a\\nb\x1b' = 1".replace("\x1b", ""), "a\\\\nb: unknown key"),
        ('"a\\nb" = 1', "a\\nb: unknown key"),
        ("settings = 1", "settings: must be a table, [settings], not 1"),
        ("roots = 1", "roots: must be tables, [[roots]]"),
        ("roots = ['/srv']", "roots: must be tables, [[roots]]"),
        ("[settings]\ndurabel = true", "settings.durabel: unknown key; did you mean durable?"),
        ("[settings]\ndurable = 1", "settings.durable: must be true or false, not 1"),
        ("[settings]\ndurable = 'yes'", 'settings.durable: must be true or false, not "yes"'),
        (
            "[settings]\nhard_links = 'copy'",
            'settings.hard_links: must be one of "refuse", "split", "through", not "copy"',
        ),
        ("[settings]\nhard_links = [1]", "settings.hard_links: must be one of"),
        ("[settings]\nmost_edit_bytes = 1.5", "settings.most_edit_bytes: must be a whole number from 0"),
        ("[settings]\nmost_edit_bytes = true", "not true"),
        ("[settings]\nmost_edit_bytes = -1", "not -1"),
        ("[settings]\nread_seconds = nan", "settings.read_seconds: must be a number from 0"),
        ("[settings]\nread_seconds = inf", "not inf"),
        ("[settings]\nread_seconds = '3'", 'not "3"'),
        ("[settings]\nlegacy_encoding = 'klingon'", "settings.legacy_encoding: unknown encoding 'klingon'"),
        ("[settings]\nlegacy_encoding = 'rot13'", "unknown encoding"),
        ("[settings]\nlegacy_encoding = ''", "must be a non-empty string"),
        ("[settings]\nstate = 'here'", 'settings.state: must be an absolute path, or start with ~/, not "here"'),
        ("[[roots]]\nwritable = true", "roots[0].path: must be the path of a directory"),
        ("[[roots]]\npath = 'here'", "roots[0].path: must be an absolute path"),
        ("[[roots]]\npath = '/a'\n[[roots]]\npath = '/b'\nwritable = 'no'", "roots[1].writable: must be true or false"),
        ("[[roots]]\npath = '/a'\nreadonly = true", "roots[0].readonly: unknown key"),
    ],
)
def test_a_mistake_is_named_with_its_file_its_key_and_what_would_be_right(
    text: str | bytes, expected: str, file: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(file, text)
    assert str(caught.value).startswith(f"{file}: ")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_not_a_file_is_refused_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ConfigError, match="not a file"):
            load({"HANDRAIL_CONFIG": str(name)})
