"""The table of programs: options wherever they stand and however they are spelled, and who uses the network."""

from __future__ import annotations

import pytest

from handrail.shell.effects.effects import find_effects
from handrail.shell.effects.interpret import LOOKING

WRITES = [
    ("cp -t.git/hooks a", ".git/hooks"),
    ("cp --target-directory=.git/hooks a", ".git/hooks"),
    ("cp --target-directory .git/hooks a", ".git/hooks"),
    ("cp -t .git/hooks -- a", ".git/hooks"),
    ("install -m755 -t.git/hooks a", ".git/hooks"),
    ("install -m 755 a .git/hooks/x", ".git/hooks/x"),
    ("mkdir -m 700 -p a/b", "a/b"),
    ("touch -d yesterday f", "f"),
    ("truncate -s 0 f", "f"),
    ("chmod -R u+w d", "d"),
]
READS = [
    ("grep -d recurse x dir", "dir", True),
    ("grep -drecurse x dir", "dir", True),
    ("grep --directories=recurse x dir", "dir", True),
    ("grep x -rn dir", "dir", True),
    ("grep -d skip x f", "f", False),
    ("grep -f.env f", ".env", False),
    ("diff -X.env a b", ".env", False),
    ("git show :0:id_rsa", "id_rsa", False),
    ("git cat-file -p :2:id_rsa", "id_rsa", False),
    ("git cat-file -p :id_rsa", "id_rsa", False),
]


@pytest.mark.parametrize(("command", "path"), WRITES)
def test_a_file_is_written_however_the_option_is_spelled(command: str, path: str) -> None:
    assert path in {file.path for file in find_effects(command).files if file.action == "write"}


@pytest.mark.parametrize(("command", "path", "below"), READS)
def test_a_file_is_read_however_the_option_is_spelled(command: str, path: str, below: bool) -> None:
    assert (path, below) in {(file.path, file.below) for file in find_effects(command).files if file.action == "read"}


CERTAIN = """
curl x; wget x; ssh h; git push; git fetch; gh pr list; npm install; npm i x; npm --prefix d install; npm -C d ci
npm --no-such-option d install; pnpm; pnpm --filter a add b; yarn; yarn add x; bun add x; pip install x
pip -q install x; python -m pip install x; python3 -Im pip install x; python -mpip install x
python -u -m pip download x; uv add x; uv sync; uv --directory d add x; uv pip install x; uv tool install x
cargo install x; cargo add x; cargo -C d update; cargo --manifest-path x fetch; go get x; go -C d get x; go mod tidy
go install x@latest; gem install x; bundle install; bundle; composer require x; dotnet restore; dotnet add package x
swift package update; mvn deploy; docker pull x; docker -H h pull x; docker compose up; npx -y create-thing
npx --package=x y; npx x@2 a; npx $x; pnpm dlx x; apt-get -y install x; psql -h h; rsync a h:b; rsync rsync://h/a b
flutter pub get; mix deps.get; npm publish; npm $x; cat /dev/tcp/h/80
"""
POSSIBLE = """
go test ./...; go build ./...; go vet ./...; go run .; go -C d test; go list ./...; cargo check; cargo test
cargo build --release; cargo clippy; cargo --manifest-path x test; npx tsc --noEmit; npx eslint src; npx jest
npx prettier --check .; npx playwright test; bunx tsc; npm exec tsc; npm exec -- tsc; bun x vitest; uv run pytest
uv --directory d run pytest; uvx ruff check; uv tool run ruff; pnpm exec tsc; yarn exec tsc; mvn test; gradle build
dotnet test; swift build; deno test
"""
NEITHER = """
pytest; make; npm test; npm run build; pnpm run lint; yarn test; tsc; eslint .; ruff check .; mypy; gofmt -l .
rustc a.rs; javac A.java; rspec; phpunit; rake; poetry run pytest; bundle exec rspec; python a.py; python -m pytest
python -m unittest; node a.js; cmake .; git status; ls; npm --version; cargo --version; rsync a b; psql -c x
npm run install; python a.py -m pip install; git log -p
"""


def split(text: str) -> list[str]:
    return [command.strip() for row in text.strip().splitlines() for command in row.split(";")]


@pytest.mark.parametrize("command", split(CERTAIN))
def test_programs_of_the_network_use_it_by_nature(command: str) -> None:
    actual = find_effects(command)
    assert actual.network == (command,)
    assert not actual.possible_network


@pytest.mark.parametrize("command", split(POSSIBLE))
def test_build_tools_only_may_use_the_network(command: str) -> None:
    actual = find_effects(command)
    assert (actual.network, actual.possible_network) == ((), (command,))
    assert actual.tier == "ordinary"


@pytest.mark.parametrize("command", split(NEITHER))
def test_other_programs_use_no_network(command: str) -> None:
    actual = find_effects(command)
    assert not (actual.network or actual.possible_network)


@pytest.mark.parametrize(
    "command", ["npx thing a", "bunx thing", "npm exec thing", "uvx thing", "cd d && npx --no-install thing"]
)
def test_a_tool_that_may_not_be_installed_may_use_the_network(command: str) -> None:
    actual = find_effects(command)
    assert not actual.network and len(actual.possible_network) == 1


@pytest.mark.parametrize("command", ["npx thing | sh", "go run x | bash", 'eval "$(npx tsc)"', "bash <(uvx thing)"])
def test_a_script_that_a_build_tool_prints_may_come_from_the_network(command: str) -> None:
    assert find_effects(command).tier == "destructive"


def test_every_row_of_the_table_can_be_interpreted() -> None:
    for name, row in LOOKING.items():
        known = {*row.flags, *row.takes, *row.names}
        assert set(row.reads.split()) <= known, name
        assert {one.partition("=")[0] for one in row.below.split()} <= {"*", *known}, name
        assert not set(row.flags) & set(row.takes) or name in ("unzip", "zip"), name
