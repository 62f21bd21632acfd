#!/bin/sh
# Installs Chromium from the distribution's packages, for the tests of the page. It does nothing if it is installed.
# Needs Debian, and root or sudo without a password.
set -eu

die() {
    echo "install-browser: $1" >&2
    exit 2
}

if command -v chromium >/dev/null 2>&1; then
    echo "install-browser: chromium is installed"
    exit 0
fi
command -v apt-get >/dev/null 2>&1 || die "there is no apt-get here: install chromium in another way"
if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || die "run it as root, or as a user whose sudo asks for no password"
    exec sudo -n "$0" "$@"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends chromium >/dev/null || die "apt-get cannot install chromium"
echo "install-browser: installed chromium"
