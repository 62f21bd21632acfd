#!/bin/sh
# Installs Chromium from the distribution's packages, for the tests of the page: its shell without windows where there is a
# package of it. It does nothing if one of the two is installed.
# Needs Debian, and root or sudo without a password.
set -eu

die() {
    echo "install-browser: $1" >&2
    exit 2
}

for browser in chromium-headless-shell chromium; do
    if command -v "$browser" >/dev/null 2>&1; then
        echo "install-browser: $browser is installed"
        exit 0
    fi
done
command -v apt-get >/dev/null 2>&1 || die "there is no apt-get here: install chromium in another way"
if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || die "run it as root, or as a user whose sudo asks for no password"
    exec sudo -n "$0" "$@"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
browser=chromium
[ -z "$(apt-cache search --names-only '^chromium-headless-shell$')" ] || browser=chromium-headless-shell
apt-get install -y -qq --no-install-recommends "$browser" >/dev/null || die "apt-get cannot install $browser"
echo "install-browser: installed $browser"
