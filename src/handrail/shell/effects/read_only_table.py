"""Commands that only look, as data: the options with which they do no harm. What is not here is not known.

An option is left out where it writes, runs something else or is rare; a command is left out where even its everyday
use runs what a project brings along (`yarn --version`, `python -m json.tool`, `ldd`) or shows the environment with its
secrets (`env`, `set`). So `rustc --version` and all of `cargo` are not here: `rust-toolchain.toml` and
`.cargo/config.toml` name the programs that they start. `go version` fetches the release that `go.mod` asks for, and
`npm ls` writes a log where a project's `.npmrc` says.
"""

from __future__ import annotations

from handrail.shell.effects.options import Syntax

_SUMS = Syntax("bctwz", "a", "binary check text tag zero quiet status strict warn ignore-missing algorithm=")
_LS = Syntax(
    "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
    "ITw",
    "all almost-all author escape block-size= ignore-backups color? directory dired classify? file-type format= "
    "full-time group-directories-first no-group human-readable si dereference dereference-command-line hide= "
    "hyperlink? indicator-style= inode ignore= kibibytes numeric-uid-gid literal quote-name quoting-style= reverse "
    "recursive size sort= time= time-style= tabsize= width= zero",
    here=True,
    below="R recursive",
)
_GREP = Syntax(
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
    below="r R recursive dereference-recursive",
    numbers=True,
)
_RG = Syntax(
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
    closed=False,
)
_FD = Syntax(
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

_BAT = Syntax(
    "pnASfu",
    "lHrm",
    "plain number show-all language= highlight-line= line-range= style= color= decorations= paging= theme= tabs= wrap= "
    "terminal-width= chop-long-lines squeeze-blank diff diff-context= italic-text= file-name= map-syntax= list-themes "
    "list-languages version force-colorization",
    closed=False,
)

ROWS: dict[str, Syntax] = {
    # files, as they are
    "cat": Syntax(
        "AbeEnstTuv", "", "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting version"
    ),
    "head": Syntax("qvz", "nc", "bytes= lines= quiet silent verbose zero-terminated", numbers=True),
    "tail": Syntax(
        "fFqvzr",
        "ncs",
        "bytes= lines= follow? quiet silent verbose retry pid= sleep-interval= zero-terminated",
        numbers=True,
    ),
    "tac": Syntax("br", "s", "before regex separator="),
    "nl": Syntax(
        "p", "bdfhilnsvw", "body-numbering= number-format= number-width= number-separator= starting-line-number="
    ),
    "rev": Syntax(),
    "bat": _BAT,
    "batcat": _BAT,
    "wc": Syntax("clLmw", "", "bytes chars lines words max-line-length total= files0-from=", reads="files0-from"),
    "less": Syntax("eEFiIMmnNqQrRsSXw", "", "quit-at-eof chop-long-lines LINE-NUMBERS", closed=False),
    "more": Syntax("dflpcsu", "", closed=False),
    "strings": Syntax("afow", "nteT", "all bytes= radix= encoding= print-file-name", numbers=True),
    "od": Syntax("abcdfhilosvx", "ANjtwS", "address-radix= format= read-bytes= skip-bytes= output-duplicates width?"),
    "hexdump": Syntax("bcCdovx", "efns", reads="f"),
    "hd": Syntax("bcCdovx", "efns", reads="f"),
    "xxd": Syntax("abeEiupr", "clgso", "", most=1, closed=False),
    "base64": Syntax("diD", "w", "decode ignore-garbage wrap=", most=1, closed=False),
    "base32": Syntax("di", "w", "decode ignore-garbage wrap=", most=1),
    "zcat": Syntax("fqv"),
    # lines
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": _RG,
    "ag": Syntax(
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
        closed=False,
    ),
    "cut": Syntax("nsz", "bcdf", "bytes= characters= delimiter= fields= complement only-delimited output-delimiter="),
    "sort": Syntax(
        "bcCdfghimMnrRsuVz",
        "kStoT",
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort ignore-nonprinting "
        "month-sort numeric-sort random-sort reverse version-sort sort= check? key= merge stable buffer-size= "
        "field-separator= unique zero-terminated parallel= debug output=",
        writes="o output T",
        closed=False,
    ),
    "uniq": Syntax(
        "cdDiuz",
        "fsw",
        "count repeated all-repeated? skip-fields= ignore-case skip-chars= unique zero-terminated check-chars= group?",
        most=1,
        closed=False,
    ),
    "comm": Syntax("123z", "", "check-order nocheck-order output-delimiter= total zero-terminated"),
    "join": Syntax("iz", "aeojtv12", "ignore-case header check-order nocheck-order"),
    "paste": Syntax("sz", "d", "delimiters= serial zero-terminated"),
    "tr": Syntax("cCdst", "", "complement delete squeeze-repeats truncate-set1", "texts"),
    "column": Syntax(
        "eLnJtxR",
        "cosNlHTEWd",
        "table separator= output-separator= columns= table-columns= json fillrows keep-empty-lines table-right=",
    ),
    "fold": Syntax("bs", "w", "bytes spaces width="),
    "fmt": Syntax("cstu", "wpg", "width= prefix= split-only uniform-spacing"),
    "expand": Syntax("i", "t", "initial tabs="),
    "unexpand": Syntax("a", "t", "all first-only tabs="),
    "diff": Syntax(
        "abBcdeEiNnpqrstTuwyZ",
        "CUFILxWX",
        "normal brief report-identical-files context? unified? side-by-side width= left-column suppress-common-lines "
        "show-c-function show-function-line= label= expand-tabs initial-tab recursive new-file unidirectional-new-file "
        "ignore-case exclude= exclude-from= ignore-tab-expansion ignore-space-change ignore-trailing-space "
        "ignore-all-space ignore-blank-lines ignore-matching-lines= text strip-trailing-cr minimal speed-large-files "
        "color? no-dereference",
        reads="X exclude-from",
        below="r recursive",
        numbers=True,
    ),
    "cmp": Syntax("bls", "in", "print-bytes ignore-initial= verbose bytes= quiet silent"),
    "shuf": Syntax(
        "erz", "ino", "echo input-range= head-count= repeat zero-terminated output=", writes="o output", closed=False
    ),
    # names and facts of files
    "ls": _LS,
    "dir": _LS,
    "vdir": _LS,
    "tree": Syntax(
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
    "du": Syntax(
        "0abcDhHkLlmPsSx",
        "Bdt",
        "all apparent-size block-size= bytes total max-depth= human-readable inodes count-links summarize si "
        "separate-dirs threshold= exclude= one-file-system time?",
        here=True,
    ),
    "df": Syntax(
        "ahHiklPTx", "tB", "all block-size= human-readable si inodes local portability total type= print-type"
    ),
    "file": Syntax(
        "bhiLkNnrsS0", "FeP", "brief mime mime-type mime-encoding dereference no-dereference keep-going", closed=False
    ),
    "stat": Syntax("LftxnqrsF", "c", "dereference file-system format= printf= terse"),
    "realpath": Syntax("eLmPqsz", "", "canonicalize-existing canonicalize-missing quiet relative-to= relative-base="),
    "readlink": Syntax("efmnqsvz", "", "canonicalize canonicalize-existing canonicalize-missing no-newline quiet"),
    "md5sum": _SUMS,
    "sha1sum": _SUMS,
    "sha224sum": _SUMS,
    "sha256sum": _SUMS,
    "sha384sum": _SUMS,
    "sha512sum": _SUMS,
    "shasum": _SUMS,
    "b2sum": _SUMS,
    "cksum": Syntax("", "a", "algorithm="),
    "sum": Syntax("rs"),
    "md5": Syntax("qr"),
    "nm": Syntax("aAClDgnpuU", "", "demangle dynamic extern-only defined-only undefined-only", closed=False),
    "readelf": Syntax("aehlSsrdVnW", "", "all file-header sections symbols headers wide", closed=False),
    "size": Syntax("ABdox", "", closed=False),
    # words
    "basename": Syntax("az", "s", "multiple suffix= zero", "texts"),
    "dirname": Syntax("z", "", "zero", "texts"),
    "seq": Syntax("w", "fs", "equal-width format= separator=", "texts", numbers=True),
    "expr": Syntax("", "", "", "texts", numbers=True),
    "factor": Syntax("", "", "", "texts"),
    "numfmt": Syntax("", "d", "from= to= field= format= header? padding= suffix= delimiter=", "texts"),
    "sleep": Syntax("", "", "", "texts"),
    # the machine and who one is
    "pwd": Syntax("LP", "", "logical physical", "none"),
    "whoami": Syntax("", "", "", "none"),
    "id": Syntax("agGnruz", "", "group groups name real user zero", "texts"),
    "groups": Syntax("", "", "", "texts"),
    "users": Syntax("", "", "", "none"),
    "who": Syntax("abdHlmpqrstTu", "", "", "none"),
    "uptime": Syntax("ps", "", "pretty since", "none"),
    "uname": Syntax("amnrsvpio", "", "all machine nodename kernel-name kernel-release kernel-version", "none"),
    "arch": Syntax("", "", "", "none"),
    "nproc": Syntax("", "", "all ignore=", "none"),
    "hostname": Syntax("adfiIsAy", "", "fqdn ip-address short all-ip-addresses", "none", closed=False),
    "free": Syntax("bkmghlt", "", "bytes kibi mebi gibi human lohi total si", "none"),
    "lscpu": Syntax("ae", "p", "all extended? parse? json", "none"),
    "lsblk": Syntax("abdfiJlmnpSt", "o", "all bytes fs output= json list", "texts"),
    "tty": Syntax("s", "", "silent quiet", "none"),
    "pgrep": Syntax("acfilnovx", "uUgGPstd", "list-name list-full full newest oldest count exact", "texts"),
    "pidof": Syntax("csx", "", "", "texts"),
    "ss": Syntax("046aeHilmnOoprstTuwxZ", "f", "all listening numeric processes tcp udp summary", "none", closed=False),
    "which": Syntax("as", "", "all", "texts"),
    "whereis": Syntax("bms", "", "", "texts"),
    "type": Syntax("afptP", "", "", "texts"),
    "man": Syntax("fkaw", "", "whatis apropos where", "texts", closed=False),
    "locale": Syntax("ak", "", "all-locales", "texts"),
    "getconf": Syntax("a", "", "", "texts"),
    "cal": Syntax("13jmnsy", "", "", "texts"),
    "crontab": Syntax("l", "", "", "none", closed=False),
    # of the shell itself
    "true": Syntax("", "", "", "texts"),
    "false": Syntax("", "", "", "texts"),
    ":": Syntax("", "", "", "texts"),
    "exit": Syntax("", "", "", "texts"),
    "return": Syntax("", "", "", "texts"),
    "break": Syntax("", "", "", "texts"),
    "continue": Syntax("", "", "", "texts"),
    "shift": Syntax("", "", "", "texts"),
    "wait": Syntax("fn", "p", "", "texts"),
    "jobs": Syntax("lprs", "", "", "texts", closed=False),
    "dirs": Syntax("clpv", "", "", "texts", numbers=True),
    "times": Syntax("", "", "", "none"),
    "((": Syntax("", "", "", "texts"),
    "unset": Syntax("v", "", "", "texts"),
    "read": Syntax("rse", "adinNptu", "", "texts"),
}

VERSIONS: dict[str, str] = {
    **dict.fromkeys(("python", "python3", "python2", "pypy3"), "-V --version -VV"),
    **dict.fromkeys(("node", "npm", "deno", "bun"), "-v --version"),
    **dict.fromkeys(("pip", "pip3", "uv", "poetry", "pipx", "ruff", "mypy", "black", "isort"), "-V --version"),
    **dict.fromkeys(("gcc", "g++", "cc", "clang", "make", "cmake", "ninja", "ld", "gdb", "tsc", "gh"), "-v --version"),
    **dict.fromkeys(("ruby", "perl", "php", "lua"), "-v --version"),
    **dict.fromkeys(("java", "javac"), "-version --version"),
    **dict.fromkeys(
        ("bash", "zsh", "sh", "docker", "git", "jq", "rg", "fd", "fzf", "tmux", "vim", "nvim"), "--version"
    ),
    **dict.fromkeys(("curl", "wget", "tar", "gzip", "zip", "rsync", "sqlite3", "psql", "mysql"), "-V --version"),
    **dict.fromkeys(("sed", "awk", "gawk", "grep", "find", "ls", "cat", "sort", "diff", "tree", "less"), "--version"),
    "ssh": "-V",
    "tmux": "-V --version",
    "dotnet": "--version",
    "openssl": "version",
}
"""Programs that tell their version and nothing else when this is all that they are given."""

PRIVATE_NAME = r"(?i).*(?:key|token|secret|passw|credential|auth|cookie|session|private).*"
"""Names of variables whose value is not to be shown."""

HARMLESS_BEFORE = (
    r"LC_[A-Z]+|LANG|LANGUAGE|TZ|COLUMNS|LINES|NO_COLOR|CLICOLOR|FORCE_COLOR|TERM|IFS|LS_COLORS|GREP_COLORS?"
)
"""Variables that may be set in front of a command: they change how it writes, and nothing else."""

QUIET_DEVICES = r"/dev/(?:null|zero|full|tty|stdin|stdout|stderr|fd/[0-9]+)|/proc/self/fd/[0-9]+"
"""Files that swallow what is written to them, or pass it on."""
