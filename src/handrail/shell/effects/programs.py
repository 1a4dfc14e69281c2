"""The table of programs that look at files or change them: one row a program. What is not here is not known.

An option is left out where it writes, runs something else or is rare; a program is left out where even its everyday use
runs what a project brings along (`yarn --version`, `python -m json.tool`, `ldd`) or shows the environment with its
secrets (`env`). So `rustc --version` and all of `cargo` only look in no case: `rust-toolchain.toml` and
`.cargo/config.toml` name the programs that they start. `go version` fetches the release that `go.mod` asks for, and
`npm ls` writes a log where a project's `.npmrc` says.
"""

from __future__ import annotations

from dataclasses import replace

from handrail.shell.effects.project_programs import CURL, PROJECT, VERSIONS, WGET
from handrail.shell.effects.rows import Program

PRIVATE_NAME = r"(?i:.*(?:key|token|secret|passw|credential|auth|cookie|session|private).*)"
"""Names of variables whose value is not to be shown."""
HARMLESS_BEFORE = (
    r"LC_[A-Z]+|LANG|LANGUAGE|TZ|COLUMNS|LINES|NO_COLOR|CLICOLOR|FORCE_COLOR|TERM|IFS|LS_COLORS|GREP_COLORS?"
)
"""Variables that may be set in front of a command: they change how it writes, and nothing else."""
QUIET_DEVICES = r"/dev/(?:null|zero|full|tty|stdin|stdout|stderr|fd/[0-9]+)|/proc/self/fd/[0-9]+"
"""Files that swallow what is written to them, or pass it on."""

# Patterns for all arguments of a program, one a line.
_PIP = r"(?:list|show|freeze)(?:\n(?:(?!-).*|--format=.*|-f|-v|--local|--user))*"
_TPUT = (
    r"(?:cols|lines|colors|longname|bold|dim|rev|smul|rmul|smso|rmso|sgr0?|op|seta[fb]|el1?|ed|civis|cnorm)"
    r"(?:\n[0-9]+)*"
)
_SET = r"(?:[-+][euxvfCEoTn]+|pipefail|nounset|errexit|xtrace|noglob)"
_VARIABLE = rf"(?!{PRIVATE_NAME}(?:\n|$))[A-Za-z_][A-Za-z0-9_]*"
_PS = (
    r"(?:(?:-[opuCUt]|o|--ppid|--pid|--user|--format)\n(?!.*env).*|(?!-)[aAfhjlmrsStTuUvwxX]+|-[AacdefFjlLMnNTuUvwwxyZ]+"
    r"|--forest|--no-headers|--sort=\S+|[0-9,]+)"
)
_IP = (
    r"(?:-(?:4|6|br|brief|c|j|s)\n)*(?:a|addr|address|r|route|l|link|n|neigh)(?:\n-(?:4|6|br|brief|c|j|s))*"
    r"(?:\n(?:show|list|ls)(?:\n.*)*)?"
)

_SUMS = Program("bctwz", "a", "binary check text tag zero quiet status strict warn ignore-missing algorithm=")
_LS = Program(
    "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
    "ITw",
    "all almost-all author escape block-size= ignore-backups color? directory dired classify? file-type format= "
    "full-time group-directories-first no-group human-readable si dereference dereference-command-line hide= "
    "hyperlink? indicator-style= inode ignore= kibibytes numeric-uid-gid literal quote-name quoting-style= reverse "
    "recursive size sort= time= time-style= tabsize= width= zero",
    here=True,
    below="R recursive",
)
_GREP = Program(
    "abcEFGHhIiLlnoPqRrsTUuVvwxyzZ",
    "ABCDdefm",
    "after-context= basic-regexp before-context= binary binary-files= byte-offset color? colour? context= count "
    "dereference-recursive devices= directories= exclude= exclude-dir= exclude-from= extended-regexp file= "
    "files-with-matches files-without-match fixed-strings ignore-case no-ignore-case include= initial-tab invert-match "
    "label= line-buffered line-number line-regexp max-count= no-filename no-messages null null-data only-matching "
    "perl-regexp quiet recursive regexp= silent text version with-filename word-regexp",
    texts=1,
    instead="e f regexp file",
    reads="f file exclude-from",
    below="r R recursive dereference-recursive d=recurse directories=recurse",
    follows="R dereference-recursive",
    numbers=True,
)
_RG = Program(
    "abcFhHiIlLnNopPqrsSuUvVwx.0",
    "ABCEegfjmMtTd",
    "after-context= before-context= context= context-separator= count count-matches max-count= max-columns= "
    "max-columns-preview max-depth= max-filesize= regexp= glob= iglob= glob-case-insensitive type= type-not= type-list "
    "type-all files files-with-matches files-without-match file= fixed-strings hidden no-hidden ignore-case "
    "smart-case case-sensitive invert-match line-number no-line-number line-regexp word-regexp only-matching pcre2 "
    "auto-hybrid-regex engine= multiline multiline-dotall no-heading heading with-filename no-filename no-ignore "
    "no-ignore-vcs no-ignore-parent no-ignore-dot no-ignore-global no-messages no-config null color= colors= column "
    "no-column json stats trim sort= sortr= quiet replace= passthru text threads= vimgrep follow no-follow "
    "one-file-system encoding= unrestricted debug version byte-offset crlf pretty include-zero",
    texts=1,
    instead="e f regexp file files type-list version V",
    reads="f file",
    here=True,
    below="*",
    follows="L follow",
    closed=False,
)
_FD = Program(
    "HIuasipFgLl0q1",
    "dteEcS",
    "hidden no-ignore unrestricted case-sensitive ignore-case glob regex fixed-strings absolute-path list-details "
    "follow full-path print0 max-depth= min-depth= exact-depth= exclude= type= extension= size= changed-within= "
    "changed-before= owner= color= max-results= quiet strip-cwd-prefix version",
    texts=1,
    here=True,
    below="*",
    closed=False,
)

_BAT = Program(
    "pnASfu",
    "lHrm",
    "plain number show-all language= highlight-line= line-range= style= color= decorations= paging= theme= tabs= wrap= "
    "terminal-width= chop-long-lines squeeze-blank diff diff-context= italic-text= file-name= map-syntax= list-themes "
    "list-languages version force-colorization",
    closed=False,
)

LOOKING: dict[str, Program] = {
    # files, as they are
    "cat": Program(
        "AbeEnstTuv", "", "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting version"
    ),
    "head": Program("qvz", "nc", "bytes= lines= quiet silent verbose zero-terminated", numbers=True),
    "tail": Program(
        "fFqvzr",
        "ncs",
        "bytes= lines= follow? quiet silent verbose retry pid= sleep-interval= zero-terminated",
        numbers=True,
    ),
    "tac": Program("br", "s", "before regex separator="),
    "nl": Program(
        "p", "bdfhilnsvw", "body-numbering= number-format= number-width= number-separator= starting-line-number="
    ),
    "rev": Program(),
    "bat": _BAT,
    "batcat": _BAT,
    "wc": Program("clLmw", "", "bytes chars lines words max-line-length total= files0-from=", reads="files0-from"),
    "less": Program("eEFiIMmnNqQrRsSXw", "", "quit-at-eof chop-long-lines LINE-NUMBERS", closed=False),
    "more": Program("dflpcsu", "", closed=False),
    "strings": Program("afow", "nteT", "all bytes= radix= encoding= print-file-name", numbers=True),
    "od": Program("abcdfhilosvx", "ANjtwS", "address-radix= format= read-bytes= skip-bytes= output-duplicates width?"),
    "hexdump": Program("bcCdovx", "efns", reads="f"),
    "hd": Program("bcCdovx", "efns", reads="f"),
    "xxd": Program("abeEiupr", "clgso", "", most=1, closed=False),
    "base64": Program("diD", "w", "decode ignore-garbage wrap=", most=1, closed=False),
    "base32": Program("di", "w", "decode ignore-garbage wrap=", most=1),
    "zcat": Program("fqv"),
    # lines
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": _RG,
    "ag": Program(
        "acDfFhHilLnoQrsSUuvwz0",
        "ABCGgm",
        "after= before= context= all-types all-text case-sensitive column count depth= files-with-matches "
        "files-without-matches filename nofilename fixed-strings literal follow group nogroup heading noheading hidden "
        "ignore= ignore-case ignore-dir= invert-match max-count= nobreak break nocolor color nopager numbers nonumbers "
        "null only-matching path-to-ignore= print-long-lines silent smart-case skip-vcs-ignores stats unrestricted "
        "version vimgrep width= word-regexp",
        texts=1,
        instead="g version",
        reads="path-to-ignore",
        here=True,
        below="*",
        follows="f follow",
        closed=False,
    ),
    "cut": Program("nsz", "bcdf", "bytes= characters= delimiter= fields= complement only-delimited output-delimiter="),
    "sort": Program(
        "bcCdfghimMnrRsuVz",
        "kStoT",
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort ignore-nonprinting "
        "month-sort numeric-sort random-sort reverse version-sort sort= check? key= merge stable buffer-size= "
        "field-separator= unique zero-terminated parallel= debug output=",
        writes="o output T",
        closed=False,
    ),
    "uniq": Program(
        "cdDiuz",
        "fsw",
        "count repeated all-repeated? skip-fields= ignore-case skip-chars= unique zero-terminated check-chars= group?",
        most=1,
        closed=False,
    ),
    "comm": Program("123z", "", "check-order nocheck-order output-delimiter= total zero-terminated"),
    "join": Program("iz", "aeojtv12", "ignore-case header check-order nocheck-order"),
    "paste": Program("sz", "d", "delimiters= serial zero-terminated"),
    "tr": Program("cCdst", "", "complement delete squeeze-repeats truncate-set1", "texts"),
    "column": Program(
        "eLnJtxR",
        "cosNlHTEWd",
        "table separator= output-separator= columns= table-columns= json fillrows keep-empty-lines table-right=",
    ),
    "fold": Program("bs", "w", "bytes spaces width="),
    "fmt": Program("cstu", "wpg", "width= prefix= split-only uniform-spacing"),
    "expand": Program("i", "t", "initial tabs="),
    "unexpand": Program("a", "t", "all first-only tabs="),
    "diff": Program(
        "abBcdeEiNnpqrstTuwyZ",
        "CUFILxWX",
        "normal brief report-identical-files context? unified? side-by-side width= left-column suppress-common-lines "
        "show-c-function show-function-line= label= expand-tabs initial-tab recursive new-file unidirectional-new-file "
        "ignore-case exclude= exclude-from= ignore-tab-expansion ignore-space-change ignore-trailing-space "
        "ignore-all-space ignore-blank-lines ignore-matching-lines= text strip-trailing-cr minimal speed-large-files "
        "color? no-dereference",
        reads="X exclude-from",
        below="r recursive",
        follows="*",
        numbers=True,
    ),
    "cmp": Program("bls", "in", "print-bytes ignore-initial= verbose bytes= quiet silent"),
    "shuf": Program(
        "erz", "ino", "echo input-range= head-count= repeat zero-terminated output=", writes="o output", closed=False
    ),
    # names and facts of files
    "ls": _LS,
    "dir": _LS,
    "vdir": _LS,
    "tree": Program(
        "aACdDfFghiJlnNpqrsStuUvxX",
        "LIPHo",
        "dirsfirst filesfirst noreport prune du si gitignore matchdirs inodes device charset= filelimit= sort= "
        "timefmt= ignore-case",
        here=True,
        below="*",
        writes="o",
        closed=False,
    ),
    "fd": _FD,
    "fdfind": _FD,
    "du": Program(
        "0abcDhHkLlmPsSx",
        "Bdt",
        "all apparent-size block-size= bytes total max-depth= human-readable inodes count-links summarize si "
        "separate-dirs threshold= exclude= one-file-system time?",
        here=True,
    ),
    "df": Program(
        "ahHiklPTx", "tB", "all block-size= human-readable si inodes local portability total type= print-type"
    ),
    "file": Program(
        "bhiLkNnrsS0", "FeP", "brief mime mime-type mime-encoding dereference no-dereference keep-going", closed=False
    ),
    "stat": Program("LftxnqrsF", "c", "dereference file-system format= printf= terse"),
    "realpath": Program("eLmPqsz", "", "canonicalize-existing canonicalize-missing quiet relative-to= relative-base="),
    "readlink": Program("efmnqsvz", "", "canonicalize canonicalize-existing canonicalize-missing no-newline quiet"),
    "md5sum": _SUMS,
    "sha1sum": _SUMS,
    "sha224sum": _SUMS,
    "sha256sum": _SUMS,
    "sha384sum": _SUMS,
    "sha512sum": _SUMS,
    "shasum": _SUMS,
    "b2sum": _SUMS,
    "cksum": Program("", "a", "algorithm="),
    "sum": Program("rs"),
    "md5": Program("qr"),
    "nm": Program("aAClDgnpuU", "", "demangle dynamic extern-only defined-only undefined-only", closed=False),
    "readelf": Program("aehlSsrdVnW", "", "all file-header sections symbols headers wide", closed=False),
    "size": Program("ABdox", "", closed=False),
    # words
    "basename": Program("az", "s", "multiple suffix= zero", "texts"),
    "dirname": Program("z", "", "zero", "texts"),
    "seq": Program("w", "fs", "equal-width format= separator=", "texts", numbers=True),
    "expr": Program("", "", "", "texts", numbers=True),
    "factor": Program("", "", "", "texts"),
    "numfmt": Program("", "d", "from= to= field= format= header? padding= suffix= delimiter=", "texts"),
    "sleep": Program("", "", "", "texts"),
    # the machine and who one is
    "pwd": Program("LP", "", "logical physical", "none"),
    "whoami": Program("", "", "", "none"),
    "id": Program("agGnruz", "", "group groups name real user zero", "texts"),
    "groups": Program("", "", "", "texts"),
    "users": Program("", "", "", "none"),
    "who": Program("abdHlmpqrstTu", "", "", "none"),
    "uptime": Program("ps", "", "pretty since", "none"),
    "uname": Program("amnrsvpio", "", "all machine nodename kernel-name kernel-release kernel-version", "none"),
    "arch": Program("", "", "", "none"),
    "nproc": Program("", "", "all ignore=", "none"),
    "hostname": Program("adfiIsAy", "", "fqdn ip-address short all-ip-addresses", "none", closed=False),
    "free": Program("bkmghlt", "", "bytes kibi mebi gibi human lohi total si", "none"),
    "lscpu": Program("ae", "p", "all extended? parse? json", "none"),
    "lsblk": Program("abdfiJlmnpSt", "o", "all bytes fs output= json list", "texts"),
    "tty": Program("s", "", "silent quiet", "none"),
    "pgrep": Program("acfilnovx", "uUgGPstd", "list-name list-full full newest oldest count exact", "texts"),
    "pidof": Program("csx", "", "", "texts"),
    "ss": Program(
        "046aeHilmnOoprstTuwxZ", "f", "all listening numeric processes tcp udp summary", "none", closed=False
    ),
    "which": Program("as", "", "all", "texts"),
    "whereis": Program("bms", "", "", "texts"),
    "type": Program("afptP", "", "", "texts"),
    "man": Program("fkaw", "", "whatis apropos where", "texts", closed=False),
    "locale": Program("ak", "", "all-locales", "texts"),
    "getconf": Program("a", "", "", "texts"),
    "cal": Program("13jmnsy", "", "", "texts"),
    "crontab": Program("l", "", "", "none", closed=False),
    # of the shell itself
    "true": Program("", "", "", "texts"),
    "false": Program("", "", "", "texts"),
    ":": Program("", "", "", "texts"),
    "exit": Program("", "", "", "texts"),
    "return": Program("", "", "", "texts"),
    "break": Program("", "", "", "texts"),
    "continue": Program("", "", "", "texts"),
    "shift": Program("", "", "", "texts"),
    "wait": Program("fn", "p", "", "texts"),
    "jobs": Program("lprs", "", "", "texts", closed=False),
    "dirs": Program("clpv", "", "", "texts", numbers=True),
    "times": Program("", "", "", "none"),
    "((": Program("", "", "", "texts"),
    "unset": Program("v", "", "", "texts"),
    "read": Program("rse", "adinNptu", "", "texts"),
    # arguments without the usual options
    "set": Program(words=rf"{_SET}(?:\n{_SET})*", why="set shows or changes the variables of the shell"),
    "printenv": Program(words=rf"{_VARIABLE}(?:\n{_VARIABLE})*", why="it shows the environment with its secrets"),
    "ps": Program(words=rf"(?:{_PS}(?:\n{_PS})*)?", why="ps with these arguments may show the environment of others"),
    "ip": Program(words=_IP, why="ip may change the network"),
    "pip": Program(words=_PIP, why="pip may install something"),
    "pip3": Program(words=_PIP, why="pip may install something"),
    "tput": Program(words=_TPUT, why="tput with these arguments is not known"),
}
for _name in ("strings", "nm", "readelf", "size"):
    LOOKING[_name] = replace(LOOKING[_name], arguments_in_files=True)
for _name in ("ls", "tree", "fd", "fdfind", "du", "stat", "wc", "file", "realpath", "readlink"):
    LOOKING[_name] = replace(LOOKING[_name], shows="names")

_COPY = Program(
    "adfilLnpPrRsTuvxHZD",
    "tgmo",
    "archive attributes-only copy-contents force interactive link dereference no-clobber no-dereference "
    "preserve? no-preserve= recursive reflink? remove-destination sparse= strip-trailing-slashes symbolic-link "
    "target-directory= no-target-directory update? verbose one-file-system mode= owner= group= "
    "directory compare relative logical physical debug exchange no-copy symbolic",
    does="writes",
    role="copy",
)
_GZIP = Program(
    "cdfhklnNqrtvV123456789",
    "S",
    "stdout to-stdout decompress keep force list test recursive best fast",
    does="writes",
    role="pack",
)
_EDITOR = Program(does="writes", role="edit")
WRITING: dict[str, Program] = {
    "cp": _COPY,
    "mv": replace(_COPY, role="move"),
    "ln": replace(_COPY, role="link"),
    "install": replace(_COPY, role="install"),
    "rm": Program(
        "dfiIrRvPWx",
        "",
        "force interactive? one-file-system no-preserve-root preserve-root? recursive dir verbose",
        below="r R recursive",
        does="writes",
        role="delete",
    ),
    "rmdir": Program("pv", "", "parents verbose ignore-fail-on-non-empty", does="writes", role="remove_directories"),
    "unlink": Program(does="writes", role="delete"),
    "mkdir": Program("pvZ", "m", "mode= parents verbose context?", does="writes", role="write"),
    "touch": Program(
        "acfhm",
        "drt",
        "no-create date= no-dereference reference= time=",
        reads="r reference",
        does="writes",
        role="write",
    ),
    "tee": Program("aip", "", "append ignore-interrupts output-error?", does="writes", role="write"),
    "truncate": Program(
        "co", "rs", "no-create io-blocks reference= size=", reads="r reference", does="writes", role="write"
    ),
    "mkfifo": Program("", "m", "mode=", does="writes", role="write"),
    "dos2unix": Program("qfkn", "", "quiet force keepdate", does="writes", role="write"),
    "unix2dos": Program("qfkn", "", "quiet force keepdate", does="writes", role="write"),
    "shred": Program("fuvxz", "ns", "force iterations= size= remove? verbose exact zero", does="writes", role="shred"),
    "chmod": Program(
        "cfvRwxrXst",
        "",
        "changes quiet silent verbose recursive reference= preserve-root no-preserve-root",
        texts=1,
        below="R recursive",
        does="writes",
        role="mode",
    ),
    "chown": Program(
        "cfvRhHLP",
        "",
        "changes quiet verbose recursive reference= from= no-dereference dereference",
        texts=1,
        below="R recursive",
        does="writes",
        role="mode",
    ),
    "chgrp": Program(
        "cfvRhHLP",
        "",
        "changes quiet verbose recursive reference= no-dereference dereference",
        texts=1,
        below="R recursive",
        does="writes",
        role="mode",
    ),
    **dict.fromkeys(("gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "compress"), _GZIP),
    "split": Program(
        "dex",
        "abClnt",
        "bytes= lines= number= suffix-length= numeric-suffixes? verbose additional-suffix=",
        does="writes",
        role="split",
    ),
    "zip": Program("rjqmuf9eyFTX0123456789", "xiPn", "recurse-paths junk-paths quiet", does="writes", role="zip"),
    "unzip": Program("flonpqtuvxjaCLDZ1", "dPx", "", does="writes", role="unzip"),
    "rsync": Program(
        "avzhrlptgoDnPuxcHAXSWEiqmRdkKLCFb46",
        "eTBfM",
        "archive verbose compress human-readable delete dry-run exclude= include= exclude-from= progress partial "
        "inplace stats checksum recursive update links perms times rsh= rsync-path= info= out-format= chmod= "
        "ignore-existing existing size-only delete-after max-size= files-from= log-file= backup-dir= partial-dir= "
        "temp-dir=",
        reads="exclude-from files-from",
        writes="log-file backup-dir partial-dir temp-dir T",
        runs="e rsh rsync-path",
        does="writes",
        role="sync",
        network=r"~(?:[\w.-]+@)?[\w.-]+:(?!\\).*|rsync://.*",
    ),
    "scp": Program(
        "346BCpqrTvOR", "cDFiJloPSX", reads="i", runs="S F o D", does="writes", role="remote_copy", network="*"
    ),
    "patch": Program(
        "RNbsuflEtcenZ",
        "pidForBYzDgV",
        "strip= input= directory= reverse forward dry-run backup quiet silent force batch output= reject-file= "
        "prefix= basename-prefix= suffix= ignore-whitespace verbose fuzz= remove-empty-files unified context normal "
        "ed merge? posix binary get= set-time set-utc version-control= no-backup-if-mismatch backup-if-mismatch "
        "follow-symlinks read-only= reject-format= ifdef=",
        reads="i input",
        writes="o output r reject-file",
        does="writes",
        role="patch",
    ),
    "dd": Program(does="writes"),
    "tar": Program(does="writes"),
    **dict.fromkeys(("vim", "vi", "nvim", "view", "nano", "emacs", "ed", "ex", "code"), _EDITOR),
    "curl": CURL,
    "wget": WGET,
}

PROGRAMS: dict[str, Program] = {**PROJECT, **LOOKING, **WRITING}
"""Every program that is known, by its name."""
for _name in ("pip", "pip3"):
    PROGRAMS[_name] = replace(PROJECT[_name], words=LOOKING[_name].words, why=LOOKING[_name].why)
for _name, _options in VERSIONS.items():
    PROGRAMS[_name] = replace(PROGRAMS.get(_name, Program(does="")), versions=_options)
