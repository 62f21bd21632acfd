#!/bin/sh
# Makes a virtual environment with makeway and everything that its tests, checks and reports need.
# Usage: setup-venv.sh FOLDER. Debian keeps the venv module in a package of its own: this script installs it if it may.
set -eu

venv=$1

say() { printf 'makeway: %s\n' "$*" >&2; }

fits() {
    command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))'
}
makes_venvs() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

# The system's own first: the packages need it, and it is faster than one that was compiled without optimisation.
python=
for candidate in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do
    fits "$candidate" || continue
    [ -n "$python" ] || python=$candidate
    if makes_venvs "$candidate"; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    say "Python 3.11 or newer is needed, and no python3 on the PATH is"
    exit 2
fi

if ! makes_venvs "$python"; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if [ "$(id -u)" = 0 ]; then sudo=; elif sudo -n true 2>/dev/null; then sudo='sudo -n'; else
        say "the module venv is missing: run 'apt-get install python$version-venv' as root, then make again"
        exit 2
    fi
    say "installing python$version-venv"
    $sudo apt-get update -qq
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "python$version-venv" >/dev/null
fi

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
say "installing makeway and its dependencies into $venv"

pip() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "$@"; }

# uv takes a fifth of pip's time. It does not read pip's configuration: it is told the index, and pip is tried where it fails.
what='.[page,report,solver,sweep,dev]'
index=${PIP_INDEX_URL:-$("$venv/bin/python" -m pip config get global.index-url 2>/dev/null || :)}
[ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
if pip uv && "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --editable "$what"; then
    exit 0
fi
say "uv could not install them: pip tries it"
pip --editable "$what"
