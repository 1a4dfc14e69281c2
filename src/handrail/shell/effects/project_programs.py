"""The table of programs for projects and networks: build tools, package managers, downloads, and destruction.

`network` names the verbs with which a program uses the network by nature, `fetches` those with which it only
may, to fetch what is missing: where a sandbox cuts the network, these need no question.
"""

from __future__ import annotations

from dataclasses import replace

from handrail.frozen import frozen
from handrail.shell.effects.rows import Program


@frozen
class Harm:
    """A command destroys if each of `needs` is among its words. Each is a set of spellings, one of which is enough.

    `-x` is that letter alone or among others, `--long` that option with or without a value, `~text` a regular
    expression that is found in some argument, anything else a word as it is. Spellings are separated by blanks.
    """

    names: str
    needs: tuple[str, ...] = ()
    why: str = ""


CURL = Program(
    "aqfGgI0ik46jlLMn:NZ#pJORSs231BvV",
    "EKCbcdDFPHhmoxUQreXYytzTuAw",
    "abstract-unix-socket= alt-svc= anyauth append aws-sigv4= basic cacert= capath= cert= cert-status "
    "cert-type= ciphers= compressed compressed-ssh config= connect-timeout= connect-to= continue-at= cookie= "
    "cookie-jar= create-dirs create-file-mode= crlf crlfile= data= data-ascii= data-binary= data-raw= "
    "data-urlencode= delegation= digest disable dns-interface= dns-servers= doh-url= dump-header= "
    "etag-compare= etag-save= expect100-timeout= fail fail-early fail-with-body form= form-escape "
    "form-string= get globoff head header= hsts= http0.9 http1.0 http1.1 http2 http2-prior-knowledge http3 "
    "http3-only ignore-content-length include insecure interface= ipv4 ipv6 json= junk-session-cookies "
    "keepalive-time= key= key-type= libcurl= limit-rate= list-only local-port= location location-trusted "
    "max-filesize= max-redirs= max-time= negotiate netrc netrc-file= netrc-optional next no-alpn no-buffer "
    "no-clobber no-keepalive no-progress-meter no-sessionid noproxy= ntlm oauth2-bearer= output= output-dir= "
    "parallel parallel-immediate parallel-max= pass= path-as-is pinnedpubkey= post301 post302 post303 "
    "preproxy= progress-bar proto= proto-default= proto-redir= proxy= proxy-anyauth proxy-basic proxy-cacert= "
    "proxy-header= proxy-insecure proxy-user= proxytunnel pubkey= quote= range= rate= raw referer= "
    "remote-header-name remote-name remote-name-all remote-time remove-on-error request= request-target= "
    "resolve= retry= retry-all-errors retry-connrefused retry-delay= retry-max-time= service-name= show-error "
    "silent socks4= socks4a= socks5= socks5-hostname= speed-limit= speed-time= ssl ssl-no-revoke ssl-reqd "
    "stderr= styled-output tcp-fastopen tcp-nodelay time-cond= tls-max= tls13-ciphers= tlsv1 tlsv1.0 tlsv1.1 "
    "tlsv1.2 tlsv1.3 tr-encoding trace= trace-ascii= trace-time unix-socket= upload-file= url= url-query= "
    "use-ascii user= user-agent= verbose version write-out= xattr",
    "texts",
    reads="K config T upload-file E cert key cacert crlfile netrc-file etag-compare pubkey",
    writes="o output c cookie-jar D dump-header trace trace-ascii stderr libcurl etag-save hsts alt-svc",
    sends="d data data-ascii data-binary data-raw data-urlencode json F form H header proxy-header url-query "
    "w write-out b cookie",
    runs="K config",
    does="connects",
    role="download",
    network="*",
)
WGET = Program(
    "VhbdqvFcNS46xErkKmpHL",
    "eoaiBtOTwQPUlARDIXn",
    "version help background execute= output-file= append-output= debug quiet verbose report-speed= "
    "input-file= force-html base= config= no-config rejected-log= tries= retry-connrefused "
    "retry-on-http-error= output-document= no-verbose no-clobber no-netrc continue start-pos= progress= "
    "show-progress timestamping no-if-modified-since no-use-server-timestamps server-response spider timeout= "
    "dns-timeout= connect-timeout= read-timeout= wait= waitretry= random-wait no-proxy quota= bind-address= "
    "limit-rate= no-dns-cache restrict-file-names= ignore-case inet4-only inet6-only prefer-family= user= "
    "password= no-iri unlink no-directories no-parent no-host-directories force-directories "
    "protocol-directories directory-prefix= cut-dirs= http-user= http-password= no-cache default-page= "
    "adjust-extension ignore-length header= compression= max-redirect= referer= save-headers user-agent= "
    "no-http-keep-alive no-cookies load-cookies= save-cookies= keep-session-cookies post-data= post-file= "
    "method= body-data= body-file= content-disposition content-on-error auth-no-challenge secure-protocol= "
    "https-only no-check-certificate certificate= private-key= ca-certificate= ca-directory= crl-file= "
    "no-hsts hsts-file= recursive level= delete-after convert-links backup-converted mirror page-requisites "
    "accept= reject= accept-regex= reject-regex= domains= exclude-domains= follow-ftp span-hosts relative "
    "include-directories= exclude-directories= trust-server-names",
    "texts",
    reads="i input-file post-file body-file load-cookies certificate private-key ca-certificate crl-file config",
    writes="O output-document o output-file a append-output save-cookies rejected-log hsts-file",
    runs="e execute use-askpass config",
    does="connects",
    role="download",
    network="*",
)
_FETCHES = Program(does="")
_CONNECTS = Program(does="connects", network="*")
_NODE = Program(
    "gDEOPsdvfqC",
    "C",
    "prefix= cwd= dir= workspace= workspaces filter= global save-dev silent quiet verbose loglevel= recursive "
    "if-present",
    does="",
)
_NODE_VERBS = (
    "install i ci add update upgrade up publish view info outdated audit search dlx create unpublish deprecate "
    "login logout whoami ping dist-tag owner access team token star"
)
_PYTHON_ENVIRONMENTS = replace(_FETCHES, network="install add update lock publish self sync")
_INSTALL = "install add update upgrade download search fetch get"
_SYSTEM_PACKAGES = Program(network=f"{_INSTALL} refresh dist-upgrade tap", does="")
_RUNS_TOOL = replace(_FETCHES, role="tool")


def _repeat_row(names: str, program: Program) -> dict[str, Program]:
    """The same row for several programs."""
    return dict.fromkeys(names.split(), program)


PROJECT: dict[str, Program] = {
    # networks, by nature
    **_repeat_row(
        "ssh sftp ftp lftp telnet nc ncat netcat socat mosh aria2c http https xh yt-dlp lynx w3m links elinks dig "
        "nslookup host ping ping6 traceroute tracepath mtr whois nmap gh glab hub aws gcloud gsutil az kubectl helm "
        "doctl flyctl heroku vercel netlify twine rclone s3cmd ansible ansible-playbook sendmail mail mutt autossh "
        "sshfs sshpass ssh-copy-id ssh-keyscan websocat grpcurl ab wrk iperf iperf3 openvpn wg ngrok cloudflared",
        _CONNECTS,
    ),
    **_repeat_row(
        "psql mysql mariadb redis-cli mongosh mongo pg_dump mysqldump",
        Program(does="", network=r"~(?:-h|--host|postgres|mysql:|redis:|mongodb).*"),
    ),
    "openssl": Program(does="", network="s_client"),
    # packages of the system, containers, infrastructure
    **_repeat_row("apt apt-get yum dnf zypper brew port snap flatpak", _SYSTEM_PACKAGES),
    "apk": Program(does="", network="add update upgrade fetch"),
    **_repeat_row(
        "docker podman nerdctl",
        Program(
            "D",
            "Hlc",
            "host= context= config= debug",
            does="",
            network="pull push login build run search compose/up compose/pull compose/push compose/build compose/run "
            "compose/create compose/start compose/watch compose/publish compose/down",
        ),
    ),
    **_repeat_row("terraform tofu pulumi", Program(does="", network="init apply plan destroy refresh up")),
    **_repeat_row(
        "rustup nvm pyenv rbenv asdf mise volta", Program(does="", network="install update self toolchain use")
    ),
    **_repeat_row("hg svn bzr", Program(does="", network="pull push clone update checkout co up incoming")),
    # Python
    **_repeat_row(
        "pip pip3",
        Program(
            "vqh",
            "",
            "proxy= cert= cache-dir= log= python= quiet verbose",
            does="",
            network="install download search wheel index",
        ),
    ),
    **_repeat_row("python python3 python2 pypy3", replace(_FETCHES, role="module")),
    "uv": Program(
        "qvn",
        "",
        "directory= project= cache-dir= config-file= quiet verbose offline no-cache color=",
        does="",
        role="tool",
        network="add sync pip lock publish self python tool/install tool/upgrade tool/update",
        fetches="run build tool venv",
    ),
    "uvx": _RUNS_TOOL,
    **_repeat_row("poetry pdm pipenv hatch rye", _PYTHON_ENVIRONMENTS),
    **_repeat_row("pipx conda mamba", Program(does="", network="install upgrade create update search run inject")),
    # JavaScript and TypeScript
    "npm": replace(_NODE, network=_NODE_VERBS, role="tool"),
    "pnpm": replace(_NODE, network=f"- {_NODE_VERBS}", fetches="exec", role="tool"),
    "yarn": replace(_NODE, network=f"- {_NODE_VERBS}", fetches="exec", role="tool"),
    "bun": replace(_NODE, network=_NODE_VERBS, fetches="exec", role="tool"),
    **_repeat_row("npx bunx pnpx", _RUNS_TOOL),
    "deno": replace(
        _FETCHES, network="install add cache update upgrade publish", fetches="run test check bench compile"
    ),
    # Go, Rust, C and C++
    "go": Program(
        "",
        "C",
        does="",
        network="get install mod work/sync",
        fetches="build test run list vet generate tool work",
        runs="exec toolexec",
    ),
    "cargo": Program(
        "qv",
        "CZ",
        "manifest-path= config= color= target-dir= offline locked frozen quiet verbose",
        does="",
        network="install add update fetch publish search login logout owner yank",
        fetches="build check test run b c t r clippy doc bench fix nextest d",
        runs="config",
    ),
    # Java, Ruby, PHP, Swift, .NET and others
    **_repeat_row(
        "mvn gradle",
        replace(_FETCHES, network="deploy publish", fetches="install package compile test build verify check"),
    ),
    **_repeat_row("bundle bundler", replace(_FETCHES, network=f"- {_INSTALL} push require outdated")),
    **_repeat_row("gem composer", replace(_FETCHES, network=f"{_INSTALL} push require outdated")),
    "swift": replace(_FETCHES, network="package/update package/resolve", fetches="build test run"),
    "dotnet": replace(
        _FETCHES, network="restore add nuget tool workload", fetches="build test run publish pack format"
    ),
    "mix": replace(_FETCHES, network="deps.get deps.update hex.publish"),
    **_repeat_row("flutter dart", replace(_FETCHES, network="pub upgrade", fetches="test build run")),
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

HARMS = (
    Harm(
        "git",
        ("push", "-f --force --force-with-lease --mirror --delete -d ~^\\+."),
        "it overwrites remote history",
    ),
    Harm("git", ("reset", "--hard --merge"), "uncommitted changes are lost"),
    Harm("git", ("clean", "-f --force -x -X"), "files that git does not know are lost"),
    Harm("git", ("stash", "drop clear"), "what was stashed is lost"),
    Harm("git", ("filter-branch filter-repo",), "it rewrites the history"),
    Harm("git", ("reflog", "expire delete"), "the way back to earlier commits is lost"),
    Harm("git", ("gc", "--prune"), "commits that nothing points at are lost"),
    Harm("git", ("prune",), "commits that nothing points at are lost"),
    Harm("git", ("update-ref", "-d --stdin"), "it deletes references"),
    Harm("git", ("checkout switch", "-f --force --discard-changes"), "uncommitted changes are lost"),
    Harm("git", ("checkout", "~."), "it may overwrite uncommitted changes"),
    Harm("git", ("restore",), "it may overwrite uncommitted changes"),
    Harm("git", ("read-tree", "-u --reset"), "it may overwrite uncommitted changes"),
    Harm("git", ("checkout-index", "-f --force"), "it may overwrite uncommitted changes"),
    Harm("git", ("merge rebase cherry-pick revert am", "--abort --skip"), "a resolution of conflicts may be lost"),
    Harm("git", ("rm submodule", "-f --force"), "uncommitted changes are lost"),
    Harm("git", ("branch", "-D"), "commits that nothing else points at are lost"),
    Harm("git", ("branch", "-d --delete", "-f --force"), "commits that nothing else points at are lost"),
    Harm("git", ("~^--upload-pack|^--receive-pack|^ext::",), "it runs a command from its arguments"),
    Harm("mkfs", (), "it creates a file system"),
    Harm("wipefs", (), "it destroys a file system"),
    Harm("fdisk parted", (), "it changes partitions"),
    Harm("blkdiscard", (), "it destroys a disk"),
    Harm("cryptsetup", (), "it changes encrypted disks"),
    Harm("mount", ("~.",), "it mounts a file system"),
    Harm("umount", (), "it unmounts a file system"),
    Harm("swapoff swapon", (), "it changes the machine"),
    Harm("chroot", (), "it needs root"),
    Harm("nsenter", (), "it enters other containers"),
    Harm("setcap", (), "it lets programs run as root"),
    Harm("visudo", (), "it changes who may become root"),
    Harm("chmod", ("-R --recursive", "~^(?:0?777|a?\\+rwx|a=rwx)$"), "it opens all files to everyone"),
    Harm("chmod", ("~^[ugoa]*\\+[rwxX]*s|^[246][0-7]{3}$",), "programs get the rights of their owner"),
    Harm("chmod chown chgrp", ("-R --recursive", "~^(?:/|~|/[a-z]+/?)$"), "it changes the system"),
    Harm("killall5", (), "it kills every process"),
    Harm("crontab", ("-r",), "it deletes all timed commands"),
    Harm("useradd userdel usermod groupdel groupadd chsh", (), "it changes the users of the machine"),
    Harm("passwd chpasswd", (), "it changes passwords"),
    Harm("iptables ip6tables nft ufw", (), "it changes the firewall"),
    Harm("sysctl", ("-w --write -p ~=",), "it changes the kernel"),
    Harm("insmod modprobe rmmod", (), "it changes the kernel"),
    Harm("systemctl", ("stop disable mask kill isolate",), "it stops services of the machine"),
    Harm("service", ("stop",), "it stops services of the machine"),
    Harm("docker", ("system volume image container network builder buildx", "prune"), "it deletes everything unused"),
    Harm("docker", ("run create", "--privileged ~^(?:-v|--volume=)?/:"), "the container has the rights of root here"),
    Harm("docker", ("volume", "rm remove"), "it deletes data"),
    Harm("docker", ("compose", "down", "-v --volumes"), "it deletes data"),
    Harm("docker-compose", ("down", "-v --volumes"), "it deletes data"),
    Harm("kubectl", ("delete drain",), "it takes down remote services"),
    Harm("helm", ("uninstall delete",), "it takes down remote services"),
    Harm("terraform", ("destroy ~^-destroy$",), "it takes down remote services"),
    Harm("terraform", ("apply", "~^-+auto-approve"), "it changes remote services without asking"),
    Harm("tofu pulumi", ("destroy",), "it takes down remote services"),
    Harm("aws", ("~^(?:delete|terminate|remove)-|^rb$",), "it deletes remote data"),
    Harm("aws", ("s3", "rm", "--recursive"), "it deletes remote data"),
    Harm("gcloud", ("delete",), "it deletes remote data"),
    Harm("az", ("delete purge",), "it deletes remote data"),
    Harm("gsutil", ("rm rb",), "it deletes remote data"),
    Harm("gh", ("repo release secret", "delete"), "it deletes remote data"),
    Harm("npm", ("publish unpublish deprecate",), "everyone gets it, and it cannot be taken back"),
    Harm("yarn pnpm", ("publish",), "everyone gets it, and it cannot be taken back"),
    Harm("cargo", ("publish yank",), "everyone gets it, and it cannot be taken back"),
    Harm("twine", ("upload",), "everyone gets it, and it cannot be taken back"),
    Harm("gem", ("push yank",), "everyone gets it, and it cannot be taken back"),
    Harm("redis-cli", ("~(?i)^flush(?:all|db)$",), "it deletes all data"),
    Harm("dropdb", (), "it deletes a database"),
    Harm("dropuser", (), "it deletes a user of a database"),
    Harm("shred", (), "what it overwrites cannot be brought back"),
    Harm("srm", (), "what it deletes cannot be brought back"),
    Harm("launchctl", ("unload bootout remove",), "it stops services of the machine"),
    Harm("diskutil", ("~(?i)^(?:erase|partition|reformat|delete)",), "it destroys a disk"),
    Harm("csrutil spctl setenforce", (), "it turns off system protection"),
)
