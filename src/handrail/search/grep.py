"""Search files: choose the engine and the order, and return the requested page.

ripgrep is fastest without an order, so it first runs like that, and a small result is sorted here. A larger result
stops it. For the order by path it then runs again in that order until the page is full; for newest first it runs for
names only, and then for the lines of the newest files.

ripgrep opens files by name, so that a directory that is swapped for a link meanwhile would lead it outside the
workspace. Therefore the files of a page are opened here, below the root and without following a link, and searched
again by their descriptors: only what this second search returns is shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from heapq import merge
from itertools import chain, islice
from operator import itemgetter

from handrail import system_calls
from handrail.errors import BinaryFile
from handrail.search import ripgrep
from handrail.search.index.candidates import Candidate, Candidates
from handrail.search.index.contents import ContentTest
from handrail.search.index.layout import make_stamp
from handrail.search.index.literals import find_literals
from handrail.search.index.use import SessionIndexes, get_indexes
from handrail.search.python_engine import PythonSearch, path_order
from handrail.search.query import FileMatches, Hit, Mode, NameFilter, Query, ResultPage
from handrail.search.receipt import Budget, Receipt, Stop
from handrail.search.ripgrep import Ripgrep, RipgrepFailed
from handrail.search.tree import SearchTree
from handrail.text.document import SNIFFED, detect_encoding

_MOST_BYTES = 2 << 20
_MOST_RECORDS = 10_000
_CHUNK = 64
_MOST_OPEN = 256
_MOST_CANDIDATES = 1024
"""With more files to look at, an index does not help."""
_MANY_CANDIDATES = 200
"""With more of them, ripgrep is started once to find those that match."""
_LEAST_SECONDS = 2.0
"""The time for the second search of a page if the first one has used up the budget."""
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LABELS = {
    "utf-16-le": "utf-16le",
    "utf-16-be": "utf-16be",
    "cp1252": "windows-1252",
    "latin_1": "",  # the label stands for windows-1252 there
    "iso8859-1": "",
    "cp1251": "windows-1251",
    "koi8_r": "koi8-r",
    "gbk": "gbk",
    "gb18030": "gb18030",
    "big5": "big5",
    "cp932": "shift_jis",
    "euc_jp": "euc-jp",
    "euc_kr": "euc-kr",
}
"""Names of encodings for ripgrep."""


def search(query: Query, tree: SearchTree, budget: Budget) -> ResultPage:
    """The page of what is found; raises `BadPattern`, `BadGlobPattern`, `UnknownType`."""
    with tree.sight.asking():
        page = _search(query, tree, budget)
        readable = tree.sight.readable
        if readable is None or tree.is_file:
            return page
        # Secrets in files are looked for only in the files that would be shown.
        files = [one for one in page.files if readable(tree.real(one.path))]
    page.receipt.withheld += len(page.files) - len(files)
    return ResultPage(files, page.more, page.receipt)


def _search(query: Query, tree: SearchTree, budget: Budget) -> ResultPage:
    query.regex()  # a pattern that cannot be understood is refused before anything is opened
    names = NameFilter(query)
    program, why = ripgrep.find_program(), "rg_not_found"
    if program and (tree.is_file or ripgrep.can_search(tree)):
        try:
            engine = Ripgrep(program, query, tree, names)
            if tree.is_file:
                return _search_file(query, tree, budget, engine)
            indexes = get_indexes(tree)
            if indexes:
                if page := _search_indexed(indexes, program, query, tree, budget, engine):
                    return page
                engine = Ripgrep(program, query, tree, names)  # the ignore rules may be others by now
            page = _search_directory(query, tree, budget, engine)
            if indexes:
                indexes.note_search(program, tree, page.receipt)
            return _confirm_page(query, tree, budget, engine, page)
        except (RipgrepFailed, OSError):
            why = "rg_failed"
    elif program:
        why = "policy"
    receipt = Receipt(fallback=why)
    if tree.is_file:
        return _search_file(query, tree, budget, None, receipt)
    plain = PythonSearch(query, tree, names, budget, receipt)
    stream = plain.everywhere(query.mode) if query.order == "path" else plain.newest(query.mode)
    return _page_from_stream(query, stream, receipt)


class _InDoubt(Exception):
    """The index cannot answer for sure."""


def _search_indexed(
    indexes: SessionIndexes, program: str, query: Query, tree: SearchTree, budget: Budget, engine: Ripgrep
) -> ResultPage | None:
    """The same page with the help of an index; None if there is none, or if it cannot help.

    Its candidates are searched by descriptors, so that no second search is needed, except for files in doubt.
    """
    alternatives = find_literals(query.pattern, literal=query.literal, ignore_case=query.ignore_case)
    view = indexes.view(program, query, tree, engine, budget) if alternatives else None
    if alternatives is None or view is None:
        return None
    candidates = Candidates(view, alternatives, query.multiline, "" if tree.path.inner == "." else tree.path.inner)
    newest = query.order == "newest"
    most = len(candidates.doubtful) if newest else len(candidates)
    if most > _MOST_CANDIDATES:
        return None
    seen = Receipt()
    at_once = len(candidates) <= _MOST_OPEN
    test = ContentTest(query, alternatives)
    look = partial(_search_candidates, query.mode, tree, engine, budget)
    narrow = None if test.decides else partial(_choose_candidates, engine, budget)
    try:
        matches = look(test, [*candidates.doubtful, *(candidates.certain() if at_once else ())], seen)
        if newest and not at_once:
            first = len(candidates) if len(candidates) <= _MOST_CANDIDATES else _MOST_CANDIDATES // 2
            first = _CHUNK * 2 if query.mode == "content" or test.decides else first
            certain = _search_chunks(look, test, narrow, candidates.newest(), first)
            certain = (one for one in certain if engine.shows(one.path))
            old = _sort_newest(tree, matches, max(1, len(matches)), engine.shows)
            files = list(_take_needed(query, _merge_newest(tree, certain, old) if old else certain))
        else:
            certain = _search_chunks(look, test, narrow, iter(() if at_once else candidates.certain()))
            files, all_of_it = _collect(one for one in chain(matches, certain) if engine.shows(one.path))
            if not all_of_it:
                return None
            files = _sort_newest(tree, files, max(1, len(files))) if newest else _sort_paths(files)
    except (_InDoubt, OSError):
        return None
    receipt = replace(view.list.receipt)
    binary = candidates.binary + seen.binary
    if query.mode == "count":  # which counts the files it lists, and these are not among them
        receipt.searched -= binary
    if not engine.scope.by_name:
        receipt.binary = binary
    elif seen.binary and query.mode == "content":
        return None
    else:
        receipt.uncounted = engine.uncounted
    page = _cut_page(query, files, receipt)
    # Whether such a file matches is certain by now, but not how often: it may have NUL bytes.
    in_doubt = {one.path for one in candidates.doubtful} if query.mode != "files_with_matches" else set[str]()
    if any(one.path in in_doubt for one in page.files):
        page = _confirm_page(query, tree, budget, engine, page)
    return page if view.is_current() else None


def _take_needed(query: Query, run: Iterator[FileMatches]) -> Iterator[FileMatches]:
    """As much as it takes to fill the page."""
    left = query.need
    for one in run:
        yield one
        left -= one.count
        if left <= 0:
            return


def _search_chunks(
    look: Callable[[ContentTest | None, Sequence[Candidate], Receipt], list[FileMatches]],
    test: ContentTest,
    narrow: Callable[[Sequence[Candidate]], Sequence[Candidate]] | None,
    candidates: Iterator[Candidate],
    size: int = _MOST_CANDIDATES,
) -> Iterator[FileMatches]:
    """Search candidates that are not in doubt, in their order. Raises `_InDoubt` if it takes too many of them.

    ``size``: how many are searched first, before the caller may have enough.
    """
    left = _MOST_CANDIDATES
    while chunk := list(islice(candidates, size)):
        if left <= 0:
            raise _InDoubt
        left -= len(chunk)
        size = _MOST_CANDIDATES if narrow else size
        is_many = narrow is not None and len(chunk) >= _MANY_CANDIDATES
        chosen = iter(narrow(chunk) if narrow and is_many else chunk)
        while some := list(islice(chosen, _CHUNK * 2)):
            matches = {one.path: one for one in look(None if is_many else test, some, Receipt())}
            yield from (matches[one.path] for one in some if one.path in matches)


def _choose_candidates(engine: Ripgrep, budget: Budget, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """Those that ripgrep finds by their names, of many; they are opened below the root before one is shown."""
    receipt = Receipt()
    matching = {one.path for one in engine.named([one.path for one in candidates], budget, receipt)}
    if receipt.stopped or receipt.unreadable:
        raise _InDoubt
    return [one for one in candidates if one.path in matching]


def _search_candidates(
    mode: Mode,
    tree: SearchTree,
    engine: Ripgrep,
    budget: Budget,
    test: ContentTest | None,
    candidates: Sequence[Candidate],
    receipt: Receipt,
) -> list[FileMatches]:
    """Search these files by descriptors, those in doubt as if ripgrep had walked to them. Raises `_InDoubt`.

    ``test`` decides about most files without ripgrep; None: most of them match.
    """
    matches: list[FileMatches] = []
    fds: dict[int, str] = {}
    walked: list[int] = []
    try:
        for one in candidates:
            fd = _open(tree, one.path)
            if fd < 0 or len(fds) > _MOST_OPEN:
                raise _InDoubt
            fds[fd] = one.path
            status = os.fstat(fd)
            if one.stamp is not None and make_stamp(status) != one.stamp:
                raise _InDoubt
            verdict = test.judge(fd, status) if test else "perhaps"
            if verdict == "perhaps":
                walked += [fd] if one.stamp is None else []
                continue
            matches += [FileMatches(one.path)] if verdict == "yes" else []
            del fds[fd]
            os.close(fd)
        if fds:
            matches += engine.among(mode, fds, budget, receipt, walked=walked)
        if receipt.stopped or receipt.unreadable:
            raise _InDoubt
    finally:
        for fd in fds:
            os.close(fd)
    return matches


def _merge_newest(tree: SearchTree, *runs: Iterable[FileMatches]) -> Iterator[FileMatches]:
    """Merge files that come newest first."""
    directory = tree.workspace.open_directory(tree.path)

    def order(one: FileMatches) -> tuple[int, list[bytes]]:
        return -os.stat(one.path, dir_fd=directory, follow_symlinks=False).st_mtime_ns, path_order(one.path)

    try:
        yield from merge(*runs, key=order)
    finally:
        os.close(directory)


def _sort_paths(files: list[FileMatches]) -> list[FileMatches]:
    return sorted(files, key=lambda one: path_order(one.path))


def _search_directory(query: Query, tree: SearchTree, budget: Budget, engine: Ripgrep) -> ResultPage:
    receipt = Receipt()
    newest_names = query.order == "newest" and query.mode != "content"
    if newest_names:  # all names are needed, but only the newest are kept
        run = engine.everywhere(query.mode, budget, receipt, judged=False)
        return _cut_page(query, _sort_newest(tree, run, query.need, engine.shows), receipt)
    files, all_of_it = _collect(engine.everywhere(query.mode, budget, receipt))
    if all_of_it:
        files = _sort_paths(files) if query.order == "path" else _sort_newest(tree, files, max(1, len(files)))
        return _cut_page(query, files, receipt)
    if query.order == "path":
        later = Receipt()
        page = _page_from_stream(query, engine.everywhere(query.mode, budget, later, in_order=True), later)
        if later.stopped != "time_limit":
            return page
        receipt = later
        if not page.more and sum(one.count for one in page.files) < query.limit:
            return _cut_page(query, _sort_paths(files), receipt)
        return page
    return _search_newest_lines(query, tree, budget, engine)


def _search_newest_lines(query: Query, tree: SearchTree, budget: Budget, engine: Ripgrep) -> ResultPage:
    """The lines of the newest files, of many: their names first, then file after file until the page is full."""
    receipt = Receipt()
    names = engine.everywhere("files_with_matches", budget.allot(budget.left * 0.7), receipt, judged=False)
    newest = _sort_newest(tree, names, query.need, engine.shows)

    def lines() -> Iterator[FileMatches]:
        remaining = iter(newest)
        while chunk := [one.path for one in islice(remaining, _CHUNK)]:
            some, stopped = _search_opened(tree, chunk, "content", engine, budget)
            yield from (some[path] for path in chunk if path in some)
            if stopped:
                receipt.stopped = stopped
                return

    stopped = receipt.stopped
    page = _page_from_stream(query, lines(), receipt)
    if page.more and not stopped:
        receipt.stopped = ""  # every file was looked at for its name
    return page


def _confirm_page(query: Query, tree: SearchTree, budget: Budget, engine: Ripgrep, page: ResultPage) -> ResultPage:
    """The page as the second search returns it. What has changed in between is shown as it is now, or not at all."""
    confirmed: list[FileMatches] = []
    remaining = iter(page.files)
    budget = budget.allot(max(budget.left, _LEAST_SECONDS))
    while chunk := list(islice(remaining, _MOST_OPEN)):
        again, stopped = _search_opened(tree, [one.path for one in chunk], query.mode, engine, budget)
        confirmed += [_confirm(one, again[one.path], query) for one in chunk if one.path in again]
        if stopped:
            page.receipt.stopped = page.receipt.stopped or stopped
            break
    return ResultPage(confirmed, page.more, page.receipt)


def _confirm(matches: FileMatches, again: FileMatches, query: Query) -> FileMatches:
    if not matches.hits:
        return replace(matches, number=again.number)
    if set(matches.hits) <= {*again.hits, *(hit._replace(column=-1) for hit in again.hits)}:
        return matches
    return _take_part(again, 0, min(matches.count, again.count), query)


def _search_opened(
    tree: SearchTree, paths: Sequence[str], mode: Mode, engine: Ripgrep, budget: Budget
) -> tuple[dict[str, FileMatches], Stop]:
    """Search these files by descriptors; also returns why it stopped early."""
    fds = {fd: path for path in paths if (fd := _open(tree, path)) >= 0}
    receipt = Receipt()
    try:
        return {one.path: one for one in engine.among(mode, fds, budget, receipt)} if fds else {}, receipt.stopped
    finally:
        for fd in fds:
            os.close(fd)


def _open(tree: SearchTree, path: str) -> int:
    """The file, opened without passing a link; -1 if it is gone."""
    inner = path if tree.path.inner == "." else f"{tree.path.inner}/{path}"
    try:
        return system_calls.open_beneath(tree.workspace.beneath(tree.path), inner, _READ)
    except OSError:
        return -1


def _search_file(
    query: Query, tree: SearchTree, budget: Budget, engine: Ripgrep | None, receipt: Receipt | None = None
) -> ResultPage:
    """One file, in whatever encoding it is."""
    receipt = receipt or Receipt()
    fd = tree.workspace.open_file(tree.path)
    try:
        try:
            head = os.pread(fd, SNIFFED * 32, 0)
            codec = detect_encoding(head, whole=len(head) >= os.fstat(fd).st_size)
        except BinaryFile:
            receipt.binary = 1
            return ResultPage((), False, receipt)
        label = "" if codec.name == "utf-8" else _LABELS.get(codec.name, "")
        if engine and (codec.name == "utf-8" or label):
            files = list(engine.among(query.mode, {fd: ""}, budget, receipt, label))
        else:
            plain = PythonSearch(query, tree, NameFilter(query), budget, receipt)
            one = plain.file(fd, "", query.mode, None if codec.name == "utf-8" and not codec.bom else codec)
            files = [one] if one else []
    finally:
        os.close(fd)
    return _cut_page(query, files, receipt)


def _collect(run: Iterator[FileMatches]) -> tuple[list[FileMatches], bool]:
    """All that comes, unless it is too much to be held."""
    files: list[FileMatches] = []
    size = records = 0
    for one in run:
        files.append(one)
        records += max(1, len(one.hits))
        size += sum(len(hit.raw) for hit in one.hits)
        if size > _MOST_BYTES or records > _MOST_RECORDS:
            run.close()  # type: ignore[attr-defined]
            return files, False
    return files, True


def _sort_newest(
    tree: SearchTree, files: Iterable[FileMatches], most: int, shows: Callable[[str], bool] | None = None
) -> list[FileMatches]:
    """The newest files of these that are shown, those of one age by path. Only as many are judged as are needed."""
    directory = tree.workspace.open_directory(tree.path)
    dated: list[tuple[int, FileMatches]] = []
    oldest, room = None, 2 * most + _MOST_RECORDS
    stat = os.stat
    try:
        for one in files:
            try:
                age = -stat(one.path, dir_fd=directory, follow_symlinks=False).st_mtime_ns
            except OSError:  # gone, or not to be reached by this name
                age = 0
            if oldest is None or age <= oldest:
                dated.append((age, one))
                if len(dated) > room:
                    dated, oldest = _keep_newest(dated, most, shows)
                    room = len(dated) + _MOST_RECORDS
    finally:
        os.close(directory)
    newest, _ = _keep_newest(dated, most, shows)
    newest.sort(key=lambda each: (each[0], path_order(each[1].path)))
    return [one for _, one in newest[:most]]


def _keep_newest(
    dated: list[tuple[int, FileMatches]], most: int, shows: Callable[[str], bool] | None
) -> tuple[list[tuple[int, FileMatches]], int | None]:
    """The newest that are shown, and all that are as old as the last of them; how old that is, if there are enough."""
    dated.sort(key=itemgetter(0))
    newest: list[tuple[int, FileMatches]] = []
    for each in dated:
        if len(newest) >= most and each[0] > newest[most - 1][0]:
            break
        if shows is None or shows(each[1].path):
            newest.append(each)
    return newest, newest[most - 1][0] if len(newest) >= most else None


def _page_from_stream(query: Query, run: Iterator[FileMatches], receipt: Receipt) -> ResultPage:
    """The page from results that come in order: no more is fetched than it takes."""
    files = list(_take_needed(query, run))
    if sum(one.count for one in files) >= query.need:
        run.close()  # type: ignore[attr-defined]
        receipt.stopped = receipt.stopped or "count_limit"
    return _cut_page(query, files, receipt)


def _cut_page(query: Query, files: Iterable[FileMatches], receipt: Receipt) -> ResultPage:
    skip, left = query.offset, query.limit
    page: list[FileMatches] = []
    for one in files:
        if one.count <= skip:
            skip -= one.count
            continue
        if not left:
            return ResultPage(page, True, receipt)
        taken = min(one.count - skip, left)
        page.append(_take_part(one, skip, taken, query) if one.hits else one)
        left -= taken
        if one.count - skip > taken:
            return ResultPage(page, True, receipt)
        skip = 0
    return ResultPage(page, False, receipt)


def _take_part(matches: FileMatches, skip: int, taken: int, query: Query) -> FileMatches:
    """Some of the matches of a file, with the lines around them."""
    matched = [hit for hit in matches.hits if hit.matched][skip : skip + taken]
    if not query.before and not query.after:
        return replace(matches, hits=matched, count=taken)
    chosen = {hit.line for hit in matched}
    near = {line for at in chosen for line in range(at - query.before, at + query.after + 1)}
    hits = [_as_context(hit, chosen) for hit in matches.hits if hit.line in near]
    return replace(matches, hits=hits, count=taken)


def _as_context(hit: Hit, chosen: set[int]) -> Hit:
    return hit if hit.line in chosen else hit._replace(column=-1)
