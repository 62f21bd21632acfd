# shellcheck shell=sh
# What the tests of both packages share, sourced by them: a clean Debian of this machine's release in a temporary folder,
# and what must hold in it while a package is installed, upgraded and removed. Needs root and debootstrap. Nothing changes
# outside that folder.
#
# MAKEWAY_DEBIAN_MIRROR: where the packages of Debian are (default http://deb.debian.org/debian)
# MAKEWAY_DEBIAN_BASE: a folder with a clean Debian that is copied. It is filled if it is not there. Default: none, and
# each test makes a Debian of its own, which takes half a minute.

mirror=${MAKEWAY_DEBIAN_MIRROR:-http://deb.debian.org/debian}
base=${MAKEWAY_DEBIAN_BASE:-}
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
configuration=/etc/makeway/makeway.yaml
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
root=
daemon=

die() {
    echo "$(basename "$0" .sh): $1" >&2
    exit 1
}

inside() {
    chroot "$root" "$@"
}

is() {
    [ "$2" = "$3" ] || die "$1 is '$2', not '$3'"
}

leave() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    [ -n "$root" ] || return 0
    umount "$root/dev/pts" "$root/proc" 2>/dev/null || true
    umount -R "$root/sys" 2>/dev/null || true
    rm -rf --one-file-system "$root"
}

bootstrap() {
    debootstrap --variant=minbase "$suite" "$1" "$mirror" >"$1.log" 2>&1 || die "debootstrap failed: $(tail -n 5 "$1.log")"
    rm "$1.log"
}

# Fills $base if it is not there. Several processes may begin at once.
fill_base() {
    (
        flock 9
        [ -d "$base" ] || { bootstrap "$base.partial" && mv "$base.partial" "$base"; }
    ) 9>"$base.lock"
}

# A clean Debian with PACKAGE as FILE: enter PACKAGE FILE.
enter() {
    [ "$(id -u)" = 0 ] || die "run it as root"
    [ -f "$1" ] || die "there is no package $1"
    command -v debootstrap >/dev/null || die "install debootstrap first"
    trap leave EXIT
    trap 'exit 130' INT TERM HUP
    root=$(mktemp -d)
    chmod 755 "$root"
    if [ -z "$base" ]; then
        bootstrap "$root"
    else
        fill_base
        cp -a "$base/." "$root"
    fi
    cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
    for setting in $(apt-config dump --format '%f=%v%n' | grep '^Acquire::http::Proxy=' || true); do
        printf 'Acquire::http::Proxy "%s";\n' "${setting#*=}" >"$root/etc/apt/apt.conf.d/30makeway-proxy"
    done
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    mount -t proc proc "$root/proc"
    mount -t devpts devpts "$root/dev/pts"
    # slurmd reads the processors and the control groups of the machine.
    mount --rbind --make-rslave /sys "$root/sys"
    cp "$1" "$root$2"
    inside apt-get -q -o Acquire::Check-Valid-Until=false update >/dev/null
}

# After the installation. ZSH: where zsh looks for completions: check_installed ZSH.
check_installed() {
    is "the user" "$(inside stat -c '%U:%G %a' /var/lib/makeway)" "makeway:makeway-users 700"
    is "the configuration" "$(inside stat -c '%U:%G %a' $configuration)" "root:root 644"
    is "the program" "$(inside stat -c '%U:%G %a' /opt/makeway/bin/makeway)" "root:root 755"
    is "a file that others may change" "$(inside find /opt/makeway /etc/makeway ! -type l -perm /022)" ""
    inside makeway --version
    inside makeway check-config $configuration >/dev/null
    inside su -s /bin/sh makeway -c 'makeway demo' | grep -q 'urgent jobs started on time' || die "the demo failed"
    for page in makeway makeway-run makeway-stop makeway-demo; do
        inside sh -c "gzip -dc /usr/share/man/man1/$page.1.gz" | grep -q '^\.TH' || die "there is no man page $page"
    done
    inside bash -c '. /usr/share/bash-completion/completions/makeway' || die "the completion is no bash"
    for file in /usr/lib/systemd/system/makeway.service /usr/share/doc/makeway/JOBS.md \
        /usr/share/doc/makeway/examples/shell-loop.sh "$1/_makeway"; do
        [ -s "$root$file" ] || die "there is no $file"
    done
}

# A daemon on a simulated cluster, with a configuration that is not the package's.
start_daemon() {
    inside install -d -o makeway -g makeway-users -m 750 /run/makeway
    cat >"$root$configuration" <<'END'
mode: act
adapter: {type: simulated}
metrics: {enabled: false}
journal: /var/lib/makeway/journal.sqlite
socket: /run/makeway/makeway.sock
END
    cp "$root$configuration" "$root/tmp/changed.yaml"
    inside setpriv --reuid makeway --regid makeway-users --clear-groups makeway run 2>"$root/tmp/daemon.log" &
    daemon=$!
    tries=0
    until [ -S "$root/run/makeway/makeway.sock" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || die "the daemon does not start: $(cat "$root/tmp/daemon.log")"
        sleep 0.1
    done
}

# After an upgrade under that daemon. There is no systemd that would restart it.
check_upgraded() {
    cmp -s "$root/tmp/changed.yaml" "$root$configuration" || die "the upgrade has changed the configuration"
    is "what is in /etc/makeway" "$(ls "$root/etc/makeway")" "makeway.yaml"
    is "the user after the upgrade" "$(inside stat -c '%U:%G %a' /var/lib/makeway)" "makeway:makeway-users 700"
    inside makeway status >/dev/null || die "the upgrade has ended the daemon: $(cat "$root/tmp/daemon.log")"
}

# After the removal, whose output is in /tmp/removal: the daemon has given everything back. KEPT is the configuration
# that stays, with the journal and the user: check_removed KEPT.
check_removed() {
    grep -q '^The daemon has stopped' "$root/tmp/removal" || die "the daemon was not ended: $(cat "$root/tmp/removal")"
    wait "$daemon" || die "the daemon has failed: $(cat "$root/tmp/daemon.log")"
    daemon=
    left=$(inside sh -c 'ls -d /opt/makeway /usr/bin/makeway /usr/share/doc/makeway /usr/lib/systemd/system/makeway*' 2>/dev/null) || true
    is "what is left of the program" "$left" ""
    cmp -s "$root/tmp/changed.yaml" "$root$1" || die "the configuration is not in $1"
    is "the user after the removal" "$(inside stat -c '%U:%G %a' /var/lib/makeway)" "makeway:makeway-users 700"
    [ -s "$root/var/lib/makeway/journal.sqlite" ] || die "the journal is gone"
}
