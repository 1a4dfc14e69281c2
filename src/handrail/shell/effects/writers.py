"""Commands that write, move and delete files: which ones, as far as their words tell."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence

from handrail.shell.effects.arguments import Arg, Value
from handrail.shell.effects.options import ParsedOptions, Syntax, parse_options
from handrail.shell.effects.ruling import FileAction, FileEffect, Ruling

_COPY = Syntax(
    "adfilLnpPrRsTuvxHZD",
    "tgmo",
    "archive attributes-only copy-contents force interactive link dereference no-clobber no-dereference "
    "preserve? no-preserve= recursive reflink? remove-destination sparse= strip-trailing-slashes symbolic-link "
    "target-directory= no-target-directory update? verbose one-file-system mode= owner= group= "
    "directory compare "
    "relative logical physical debug exchange no-copy symbolic",
)
_ROWS: dict[str, Syntax] = {
    "cp": _COPY,
    "mv": _COPY,
    "ln": _COPY,
    "install": _COPY,
    "rm": Syntax(
        "dfiIrRvPWx", "", "force interactive? one-file-system no-preserve-root preserve-root? recursive dir verbose"
    ),
    "rmdir": Syntax("pv", "", "parents verbose ignore-fail-on-non-empty"),
    "unlink": Syntax(),
    "mkdir": Syntax("pvZ", "m", "mode= parents verbose context?"),
    "touch": Syntax("acfhm", "drt", "no-create date= no-dereference reference= time=", reads="r reference"),
    "tee": Syntax("aip", "", "append ignore-interrupts output-error?"),
    "truncate": Syntax("co", "rs", "no-create io-blocks reference= size="),
    "mkfifo": Syntax("", "m", "mode="),
    "shred": Syntax("fuvxz", "ns", "force iterations= size= remove? verbose exact zero"),
    "chmod": Syntax(
        "cfvRwxrXst", "", "changes quiet silent verbose recursive reference= preserve-root no-preserve-root", texts=1
    ),
    "chown": Syntax(
        "cfvRhHLP", "", "changes quiet verbose recursive reference= from= no-dereference dereference", texts=1
    ),
    "chgrp": Syntax("cfvRhHLP", "", "changes quiet verbose recursive reference= no-dereference dereference", texts=1),
    "gzip": Syntax(
        "cdfhklnNqrtvV123456789", "S", "stdout to-stdout decompress keep force list test recursive best fast"
    ),
    "split": Syntax(
        "dex", "abClnt", "bytes= lines= number= suffix-length= numeric-suffixes? verbose additional-suffix="
    ),
    "zip": Syntax("rjqmuf9eyFTX0123456789", "xiPn", "recurse-paths junk-paths quiet"),
    "unzip": Syntax("flonpqtuvxjaCLDZ1", "dPx", ""),
    "rsync": Syntax(
        "avzhrlptgoDnPuxcHAXSWEiqmRdkKLCFb46",
        "eTBfM",
        "archive verbose compress human-readable delete dry-run "
        "exclude= include= exclude-from= progress partial inplace stats checksum recursive update links perms "
        "times rsh= info= out-format= chmod= ignore-existing existing size-only delete-after max-size= files-from=",
    ),
    "scp": Syntax("346BCpqrTvOR", "cDFiJloPSX"),
    "patch": Syntax(
        "RNbsuflEt", "pidFo", "strip= input= directory= reverse forward dry-run backup quiet force output="
    ),
    "dos2unix": Syntax("qfkn", "", "quiet force keepdate"),
}
for _packer in ("gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "compress"):
    _ROWS[_packer] = _ROWS["gzip"]
_ROWS["unix2dos"] = _ROWS["dos2unix"]

DELETES_BY_OPTION = ("rsync", "tar", "zip")


def writer(base: str, args: Sequence[Arg]) -> Ruling | None:
    """What is told of a command that writes; None if it is none of these."""
    special = _SPECIAL.get(base)
    if special is not None:
        return special(args)
    row = _ROWS.get(base)
    if row is None:
        return None
    found = parse_options(row, args)
    files = _files(base, found)
    doubt = ""
    if found.unknown:
        doubt = f"the option {found.unknown} of {base} is not known"
    elif any(arg.values is None for arg in found.operands[row.texts :]):
        doubt = f"it cannot be told which files {base} changes"
    only_looks = base == "unzip" and found.has("l", "t", "v", "Z", "p") and not doubt
    return Ruling(
        "read_only" if only_looks else "ordinary", "" if only_looks else f"{base} writes", doubt, tuple(files)
    )


def _files(base: str, found: ParsedOptions) -> list[FileEffect]:
    operands = found.operands
    deep = found.has("r", "R", "a", "recursive", "archive")
    if base in ("cp", "mv", "ln", "install", "rsync", "scp"):
        return _copied(base, found, deep or base == "mv")
    if base in ("rm", "rmdir", "unlink"):
        above = _above(operands) if base == "rmdir" and found.has("p", "parents") else []
        return [*_each(operands, "delete", below=base == "rm" and deep), *above]
    if base in ("chmod", "chown", "chgrp"):
        return _each(operands if found.has("reference") else operands[1:], "write", below=deep)
    if base == "shred":
        return _each(operands, "delete" if found.has("u", "remove") else "write")
    if base in ("gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "compress"):
        return _packed(base, found)
    if base == "split":
        return [*_each(operands[:1], "read"), *_prefix(operands[1:2])]
    if base == "zip":
        moved = _each(operands[1:], "delete", below=True) if found.has("m") else []
        return [*_each(operands[:1], "write"), *_each(operands[1:], "read", below=True), *moved]
    if base == "unzip":
        reads = _each(operands[:1], "read")
        if found.has("l", "t", "v", "Z", "p"):
            return reads
        target = found.value("d")
        return [*reads, *(_each([target], "write", below=True) if target else [FileEffect("write", ".", below=True)])]
    if base == "patch":
        given_file = found.value("i", "input")
        patches = [given_file] if given_file else operands[1:2]
        named = _each(operands[:1], "write") or [FileEffect("write", ".", below=True)]
        return [*_each(patches, "read"), *([] if found.has("dry-run") else named)]
    reads = [
        effect
        for name, value in found.options
        if name in ("r", "reference") and value
        for effect in value.files("read")
    ]
    return [*reads, *_each(operands, "write")]


def _each(args: Sequence[Arg], action: FileAction, *, below: bool = False) -> list[FileEffect]:
    return [effect for arg in args for effect in arg.files(action, below=below)]


def _above(args: Sequence[Arg]) -> list[FileEffect]:
    """The directories above, which `rmdir -p` deletes too."""
    found: list[FileEffect] = []
    for value in (value for arg in args for value in arg.values or ()):
        path = posixpath.dirname(value.text.rstrip("/"))
        while path.strip("/~"):
            found.append(FileEffect("delete", path, value.glob))
            path = posixpath.dirname(path)
    return found


def _prefix(args: Sequence[Arg]) -> list[FileEffect]:
    """Files that are not there yet, so that no pattern tells which."""
    texts = [arg.text for arg in args] or ["x"]
    return [FileEffect("write", f"{text}*", glob=True, below=True) for text in texts if text]


def _copied(base: str, found: ParsedOptions, deep: bool) -> list[FileEffect]:
    target = found.value("t", "target-directory")
    sources = list(found.operands)
    if base == "install" and found.has("d", "directory"):
        return _each(sources, "write")
    if target is None and len(sources) > 1:
        target = sources.pop()
    if base == "ln" and target is None:
        named = [] if found.has("s", "symbolic") else _each(sources, "read")
        return [
            *named,
            *(FileEffect("write", _name(value), value.glob) for arg in sources for value in arg.values or ()),
        ]
    out: list[FileEffect] = []
    if base == "mv":  # by which name a file can be read afterwards is up to whoever moves it: so it is a read, too
        out += [*_each(sources, "read", below=True), *_each(sources, "delete", below=True)]
    elif base != "ln" or not found.has("s", "symbolic"):  # the same with a second name for a file
        out += _each(sources, "read", below=deep)
    if target is not None:
        exact = found.has("T", "no-target-directory")
        for arg in sources:
            for value in arg.values or ():
                if base == "rsync" or value.glob or value.below:
                    out += target.files("write", below=True)
                else:
                    out += target.files("write", below=deep, into="" if exact else _name(value))
        if not sources or any(arg.values is None for arg in sources):
            out += target.files("write", below=True)
    if base == "rsync" and target is not None and found.has("delete", "delete-after"):
        out += _each([target], "delete", below=True)
    return [effect for effect in out if ":" not in effect.path] if base in ("rsync", "scp") else out


def _name(value: Value) -> str:
    """The last name of a path."""
    return posixpath.basename(value.text.rstrip("/")) or "."


def _packed(base: str, found: ParsedOptions) -> list[FileEffect]:
    if found.has("c", "stdout", "to-stdout", "l", "list", "t", "test"):
        return _each(found.operands, "read")
    keeps = found.has("k", "keep") or base == "zstd"
    out = _each(found.operands, "read" if keeps else "delete")
    ending = {"gzip": ".gz", "bzip2": ".bz2", "xz": ".xz", "zstd": ".zst", "compress": ".Z"}.get(base, "")
    for effect in list(out):
        packs = ending and not found.has("d", "decompress")
        path = effect.path + ending if packs else effect.path.rpartition(".")[0]
        if path:
            out.append(FileEffect("write", path, effect.glob, below=effect.glob and not packs))
    return out


def _dd(args: Sequence[Arg]) -> Ruling:
    files: list[FileEffect] = []
    doubt = ""
    for arg in args:
        if arg.values is None and arg.source.startswith(("of=", "if=")):
            doubt = "it cannot be told which files dd writes"
        for value in arg.values or ():
            name, _, path = value.text.partition("=")
            if name in ("if", "of") and path:
                files.append(Value(path, value.glob).file("read" if name == "if" else "write"))
    return Ruling(why="dd writes", doubt=doubt, files=tuple(files))


_TAR = Syntax(
    "ctxruAvzjJpkaPhmOwSUZl",
    "fCTXbI",
    "create list extract get append update file= directory= verbose gzip bzip2 xz zstd auto-compress exclude= "
    "exclude-vcs exclude-from= files-from= strip-components= to-stdout preserve-permissions keep-old-files wildcards "
    "no-same-owner overwrite transform= owner= group= mtime= sort= numeric-owner totals absolute-names remove-files",
)


def _tar(args: Sequence[Arg]) -> Ruling:
    """The first word may be letters without a dash; `-f` then takes the next word."""
    first = args[0].text if args else None
    if first and not first.startswith("-"):
        rest = list(args[1:])
        args = []
        for letter in first:
            args.append(Arg(letter, (Value("-" + letter),)))
            if letter in _TAR.takes and rest:
                args.append(rest.pop(0))
        args = [*args, *rest]
    found = parse_options(_TAR, args)
    archive, to = found.value("f", "file"), found.value("C", "directory")
    if archive is not None and archive.text == "-":
        archive = None
    doubt = f"the option {found.unknown} of tar is not known" if found.unknown else ""
    if any(arg.values is None for arg in found.operands) or found.loose:
        doubt = doubt or "it cannot be told which files tar changes"
    if found.has("I"):
        doubt = doubt or "tar runs the program that it is given"
    if archive is not None and any(":" in value.text.partition("/")[0] for value in archive.values or ()):
        doubt = doubt or "tar starts a remote shell for an archive on another machine"
    if found.has("t", "list"):
        looks = not doubt and not found.has("c", "x", "r", "u", "A", "create", "extract", "get", "append", "update")
        files = archive.files("read") if archive else []
        return Ruling("read_only" if looks else "ordinary", "" if looks else "tar may write", doubt, tuple(files))
    if found.has("x", "extract", "get"):
        # Members of an archive may have any name below; tar itself keeps them there, unless told otherwise.
        files = archive.files("read") if archive else []
        if not found.has("O", "to-stdout"):
            files += to.files("write", below=True) if to else [FileEffect("write", ".", below=True)]
        if found.has("P", "absolute-names"):
            doubt = doubt or "the archive says where files go"
    else:
        files = _each(found.operands, "read", below=True) + (archive.files("write") if archive else [])
        if found.has("remove-files"):
            files += _each(found.operands, "delete", below=True)
        if to is not None:
            doubt = doubt or "tar goes to another directory"
    return Ruling(why="tar writes", doubt=doubt, files=tuple(files))


_SENDS_FILE = ("-T", "--upload-file", "--post-file", "--body-file", "-K", "--config", "-i", "--input-file")
_SENDS = (*_SENDS_FILE, "-d", "--data", "-F", "--form", "--data-binary", "--data-raw", "--data-urlencode", "--json")


def _sent(option: str, value: str) -> list[FileEffect]:
    """The file that an option of curl or wget sends."""
    _, at, name = value.rpartition("@")
    if option not in _SENDS or not name or not (at or option in _SENDS_FILE):
        return []
    return [Value(name.partition(";")[0]).file("read")]


def _downloads(args: Sequence[Arg]) -> Ruling:
    """The files that curl and wget write, where they are named."""
    files: list[FileEffect] = []
    texts = [arg.text or "" for arg in args]
    for index, text in enumerate(texts):
        if text in ("-o", "-O", "--output", "--output-document") and index + 1 < len(args):
            if not (text == "-O" and "://" in texts[index + 1]) and texts[index + 1] != "-":
                files += args[index + 1].files("write")
        elif text.startswith(("--output=", "--output-document=")):
            files.append(Value(text.partition("=")[2]).file("write"))
        elif text in _SENDS and index + 1 < len(args):
            files += _sent(text, texts[index + 1])
        elif text[:2] in ("-d", "-T", "-F", "-K") and len(text) > 2:
            files += _sent(text[:2], text[2:])
        elif text.startswith("--") and "=" in text:
            files += _sent(*text.split("=", 1))
    return Ruling(why="it goes out to the network", files=tuple(effect for effect in files if effect.path))


def _opened(args: Sequence[Arg]) -> Ruling:
    """An editor or viewer: what it is told to do there is not known."""
    named = [arg for arg in args if not (arg.text or "").startswith(("-", "+"))]
    return Ruling(why="it opens files to be worked on", files=(*_each(named, "read"), *_each(named, "write")))


_SPECIAL: dict[str, Callable[[Sequence[Arg]], Ruling]] = {
    **dict.fromkeys(("vim", "vi", "nvim", "view", "nano", "emacs", "ed", "ex", "code"), _opened),
    "dd": _dd,
    "tar": _tar,
    "curl": _downloads,
    "wget": _downloads,
}
