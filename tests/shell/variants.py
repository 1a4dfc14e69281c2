"""Scripts that make bash run code by arithmetic, or set a variable that steers commands: places x payloads x quoting.

Made from a grammar and not written out, so that a check which knows a few spellings does not pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product

_PAYLOADS = ("a[$(:>{canary})]", "a[`:>{canary}`]", "7+a[$(:>{canary})]", "b[a[$(:>{canary})]]", "(a[$(:>{canary})])")


def _quoted(payload: str) -> dict[str, str]:
    """The payload as one word of bash, in each way to quote it; what has to come before it is behind the tab."""
    escaped = "".join(f"\\{char}" if char in "$`()[]>;&|<\\*? " else char for char in payload)
    inner = payload.replace("\\", "\\\\").replace("$", "\\$").replace("`", "\\`")
    return {
        "single": f"'{payload}'",
        "double": f'"{inner}"',
        "ansi": f"$'{payload}'",
        "octal": "$'" + payload.replace("$", "\\44").replace("`", "\\140") + "'",
        "backslash": escaped,
        "split": f"'{payload[:3]}''{payload[3:]}'",
        "mixed": f"{payload[:1]}'{payload[1:]}'",
        "variable": f"\"$v\"\tv='{payload}'; ",
        "bare variable": f"$v\tv='{payload}'; ",
        "braced": f'"${{v}}"\tv="{inner}"; ',
        "default": f'"${{w:-{inner}}}"',
        "read": f"\"$v\"\tread -r v <<< '{payload}'; ",
        "printf": f"\"$v\"\tprintf -v v %s '{payload}'; ",
        "loop": f"\"$v\"\tfor v in '{payload}'; do :; done; ",
        "array": f"\"${{v[0]}}\"\tv=('{payload}'); ",
        "positional": f"\"$1\"\tset -- '{payload}'; ",
        "substituted": f"\"$(echo '{payload}')\"",
    }


_COMPARED = [
    place
    for operator in ("-eq", "-ne", "-lt", "-le", "-gt", "-ge")
    for place in (f"[[ {{}} {operator} 0 ]]", f"[[ 0 {operator} {{}} ]]", f"[[ -z x || ! ( {{}} {operator} 1 ) ]]")
]
_BEHIND_A_NAME = (
    "@Q",
    "@E",
    "@A",
    "@a",
    "@U",
    "[0]",
    "[0]@Q",
    "[@]:0",
    "[*]:0:1",
    "[@]@Q",
    "[@]/x/y",
    "[*]#x",
    ":-x",
    "%x",
)
"""With one of these `${!n...}` is no list of names, but the variable whose name is the value of n."""
_WORDS = (
    *_COMPARED,
    "[[ -v {} ]]",
    "[[ -n x && -v {} ]]",
    "test -v {}",
    "[ -v {} ]",
    "[ ! -v {} ]",
    "[ x -a -v {} ]",
    "o=-v; [ $o {} ]",
    "o=-v; test $o {}",
    'o=-v; [ "$o" {} ]',
    "declare -i n; n={}",
    "declare -i n; n+={}",
    "declare -i n={}",
    "typeset -i n; n={}",
    "typeset -ir n={}",
    "readonly -i n={}",
    "declare -ai n; n=({})",
    "declare -i n; for n in {}; do :; done",
    "declare -i n; read n <<< {}",
    "declare -i n; printf -v n %s {}",
    "declare -i n; : ${{n:={}}}",
    "declare -i n; n={} true",
    "declare -i n; export n={}",
    'export n; declare -i n; eval "n="{}',
    "RANDOM={}",
    "OPTIND={}",
    "HISTCMD={}",
    "SRANDOM={}",
    "for RANDOM in {}; do :; done",
    "read RANDOM <<< {}",
    "printf -v OPTIND %s {}",
    "let {}",
    "let n={}",
    "command let {}",
    "builtin declare -i n={}",
    "read {} <<< x",
    "builtin read {} <<< x",
    "read -a {} <<< x",
    "printf -v {} x",
    "command printf -v {} x",
    "a=(1); unset {}",
    "unset -v {}; a=1; unset {}",
    "declare {}=1",
    "typeset {}=1",
    "wait -n -p {} & wait -p {} -n",
    "sleep 0 & wait -n -p {}",
    "n={}; echo $((n))",
    "n={}; echo $(( 1 + n ))",
    "n={}; echo $[n]",
    "n={}; (( n ))",
    "n={}; (( m = n + 1 ))",
    "n={}; for (( i = n; i < 1; i++ )); do :; done",
    "n={}; echo ${{x:n}}",
    "x=abc; n={}; echo ${{x:0:n}}",
    "n={}; echo ${{y[n]}}",
    "n={}; echo ${{y[$n]}}",
    "n={}; echo ${{#y[n]}}",
    "n={}; y[n]=1",
    "n={}; y[$n]=1",
    "n={}; echo ${{!n}}",
    *(f"n={{}}; echo ${{{{!n{behind}}}}}" for behind in _BEHIND_A_NAME),
    *(f"n={{}}; echo ${{{{!{special}:n}}}}" for special in "#?@*"),
    "n={}; m=n; echo $((m))",
    "n={}; m=$n; echo $((m))",
    "n={}; bash -c 'echo $((n))'",
    "n={} bash -c 'echo $((n))'",
    "env n={} bash -c 'echo $((n))'",
    "bash -c 'echo $(($1))' x {}",
    "bash -c 'y[$1]=1' x {}",
    "bash -c '[[ $1 -eq 0 ]]' x {}",
    "bash -c '[ $1 $2 ]' x -v {}",
    "bash -c '[ \"$@\" ]' x -v {}",
    "bash -c 'test \"${{@}}\"' x -v {}",
    'y=(-v {}); [ "${{y[@]}}" ]',
    "bash -c 'printf \"$@\"' x -v {} y",
    "bash -c 'declare -i \"n=$@\"' x {}",
    ": {}; echo $((_))",
    "n={}; [[ n -eq 0 ]]",
    "n={}; [[ $n -eq 0 ]]",
    "x=abc; echo ${{x:{}}}",
    "x=abc; echo ${{x:0:{}}}",
    "echo ${{y[{}]}}",
    "y=([{}]=1)",
    "declare y=([{}]=1)",
    "y=(1); y[{}]=1",
    "exec {{y[{}]}}</dev/null",
    "coproc n {{ :; }}; n={}; echo $((n))",
    "mapfile -t n <<< {}; echo $((n))",
    "echo {} | while read -r n; do echo $((n)); done",
    "case x in x) [[ {} -eq 0 ]];; esac",
    '(echo "$([[ {} -eq 0 ]])")',
    "eval '[[ $v -eq 0 ]]'; [[ {} -eq 0 ]]",
    "if [[ {} -gt 0 ]]; then echo y; fi",
    'cat <<< "$(( {} ))"',
)
_LISTS = (
    "declare -a {}",
    "declare -ar {}",
    "typeset -a {}",
    "readonly -a {}",
    "n=(); declare {}",
    "declare -A {}",
)


def evaluated(canary: str) -> Iterator[str]:
    """Scripts that have bash evaluate a text with a command in it: each place with each quoting and each payload."""
    payloads = [payload.format(canary=canary) for payload in _PAYLOADS]
    for number, place in enumerate(_WORDS):
        for word in _quoted(payloads[0]).values():
            yield _put(place, word)
        for turn, payload in enumerate(payloads[1:], start=number):
            words = list(_quoted(payload).values())
            yield _put(place, words[turn % len(words)])
    for place, text in product(_LISTS, ("n=($(:>{0}))", "n=([a[$(:>{0})]]=1)", "n=(`:>{0}`)")):
        for word in _quoted(text.format(canary)).values():
            yield _put(place, word)


def _put(place: str, word: str) -> str:
    spelled, _, before = word.partition("\t")
    return before + place.format(*[spelled] * place.count("{}"))


_SETS = (
    "(( {name}=7 ))",
    "(( x=1, {name}=7 ))",
    "(( {name}+=7 ))",
    "(( {name}++ ))",
    "(( 1 ? {name}=7 : 0 ))",
    "echo $(( {name}=7 ))",
    "echo $[ {name}=7 ]",
    'echo "$(( 7 - ({name}=7) ))"',
    "cat <<< $(( {name}=7 ))",
    ": $(( {name}=7 )) > /dev/null",
    "x=$(( {name}=7 ))",
    "[[ {name}=7 -eq 7 ]]",
    "[[ 7 -eq {name}=7 ]]",
    "[[ x=1,{name}=7 -ge 0 ]]",
    "[[ -z x || '{name}=7' -eq 7 ]]",
    "echo ${{y[{name}=7]}}",
    "echo ${{y[-1+({name}=7)]}}",
    "echo ${{#y[{name}=7]}}",
    "y[{name}=7]=1",
    "y=([{name}=7]=1)",
    "x=abc; echo ${{x:{name}=7}}",
    "x=abc; echo ${{x:0:{name}=7}}",
    "echo ${{@:{name}=7}}",
    "for (( {name}=7; x<1; x++ )); do :; done",
    "let {name}=7",
    "let 'x=1' '{name}=7'",
    "declare -i x; x={name}=7",
    "declare -i x='{name}=7'",
    "RANDOM={name}=7",
    "exec {{{name}}}</dev/null",
    "exec {{{name}}}<&0",
    ": {{{name}}}</dev/null",
    "{{ :; }} {{{name}}}</dev/null",
    "exec {{{name}}}>&1",
    "{name}=7",
    "x=1 {name}=7",
    "{name}+=7",
    "{name}=(7)",
    "{name}[0]=7",
    "declare {name}=7",
    "declare -g {name}=7",
    "declare -r {name}=7",
    "typeset {name}=7",
    "readonly {name}=7",
    "export {name}=7",
    "export '{name}=7'",
    'export "{name}"=7',
    "declare x=1 {name}=7",
    "declare -- {name}=7",
    "n={name}; declare $n=7",
    'n={name}=7; declare "$n"',
    "n={name}=7; export $n",
    "declare {name}{{,}}=7",
    "read {name} <<< 7",
    "read -r {name} <<< 7",
    "read -r x {name} <<< 'a 7'",
    "read -a {name} <<< 7",
    "read -ra {name} <<< 7",
    "read -ra{name} <<< 7",
    "builtin read {name} <<< 7",
    "command read {name} <<< 7",
    "n={name}; read $n <<< 7",
    'n={name}; read "$n" <<< 7',
    "while read {name}; do ls; done <<< 7",
    "mapfile -t {name} <<< 7",
    "readarray -t {name} <<< 7",
    "printf -v {name} 7",
    "printf -v{name} 7",
    "printf -v '{name}' %d 7",
    "command printf -v {name} 7",
    "builtin printf -v{name} 7",
    "printf -v x -v {name} 7",
    "n=-v{name}; printf $n 7",
    'n=-v{name}; printf "$n" 7',
    "n={name}; printf -v $n 7",
    "n='-v {name}'; printf $n 7",
    "printf 1234567%n {name}",
    "printf -- 1234567%n {name}",
    "printf -v x -- 1234567%n {name}",
    'f=1234567%n; printf "a$f" {name}; printf "$f" {name}',
    "printf '%s%n' 1234567 {name}",
    'y=(234567%n {name}); printf "1${{y[@]}}"',
    'y=(1 {name}=7); declare "x=${{y[@]}}"',
    "y='1 {name}=7'; declare \"x=\"$y",
    "getopts x {name} -x; ls; {name}=7",
    "for {name} in 7; do ls; done",
    "for {name} in 7\ndo ls; done",
    "set -- 7; for {name}; do ls; done",
    "for {name} in 1 7; do :; done",
    "select {name} in 7; do break; done <<< 1",
    "coproc {name} {{ :; }}; {name}=7",
    "coproc {name} ( : ); (( {name}=7 ))",
    "unset {name}; : ${{{name}:=7}}",
    "unset {name}; echo ${{{name}=7}}",
    'unset {name}; echo "${{{name}:=7}}"',
    "unset {name}; cat <<< ${{{name}=7}}",
    "unset {name}",
    "unset -v {name}",
    "unset '{name}'",
    "n={name}; unset $n",
    "declare -n r={name}; r=7",
    "typeset -n r={name}; r=7",
    "declare -n r; r={name}; r=7",
    "declare -n r={name}; read r <<< 7",
    "declare -n r={name}; (( r=7 ))",
    "declare -n r={name}; for r in 7; do :; done; r=7",
    "eval {name}=7",
    "eval '{name}''=7'",
    "n={name}; eval $n=7",
    "{{ {name}=7; }}",
    "if {name}=7; then :; fi",
    "case x in x) {name}=7;; esac",
    "! {name}=7",
    "time {name}=7",
    "{name}=7 && :",
    ": & wait -n -p {name}; (( {name}=7 ))",
    "trap '{name}=7' EXIT; trap - EXIT; {name}=7",
)
_STEERS = {"PATH": ("ls", "ls -la", "(ls)", "command ls", "echo $(ls)", "ls | cat"), "HOME": ("git status",)}
_OTHERS = ("LD_PRELOAD", "BASH_ENV", "ENV", "PS4", "GIT_DIR", "GIT_EXTERNAL_DIFF", "PAGER", "LESSOPEN", "CDPATH")


def steering(name: str = "PATH") -> Iterator[str]:
    """Scripts that set a variable which steers what the next command runs."""
    for place, after in product(_SETS, _STEERS.get(name, ("git log",))):
        for joint in ("; ", "\n"):
            yield f"{place.format(name=name)}{joint}{after}"


def steering_others() -> Iterator[str]:
    """The same of variables whose effect is not seen in the test, so that only the verdict counts."""
    for name in ("HOME", *_OTHERS):
        yield from islice(steering(name), 0, None, 2)
