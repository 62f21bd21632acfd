#!/bin/sh
# Installs, tries and removes the Debian package in a clean Debian of this machine's release:
#     test-deb.sh PACKAGE
# Needs root and debootstrap. Nothing changes outside a temporary folder.
#
# MAKEWAY_DEBIAN_MIRROR: where the packages are (default http://deb.debian.org/debian)
set -eu

package=$1
mirror=${MAKEWAY_DEBIAN_MIRROR:-http://deb.debian.org/debian}
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)

die() {
    echo "test-deb: $1" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || die "run it as root"
[ -f "$package" ] || die "there is no package $package"
command -v debootstrap >/dev/null || die "install debootstrap first"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
root=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null; umount "$root/dev/pts" "$root/proc" 2>/dev/null; rm -rf --one-file-system "$root"' EXIT
trap 'exit 130' INT TERM HUP
chmod 755 "$root"
debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$root.log" 2>&1 || die "debootstrap failed: see $root.log"
rm "$root.log"
cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
for setting in $(apt-config dump --format '%f=%v%n' | grep '^Acquire::http::Proxy=' || true); do
    printf 'Acquire::http::Proxy "%s";\n' "${setting#*=}" >"$root/etc/apt/apt.conf.d/30makeway-proxy"
done
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
mount -t proc proc "$root/proc"
mount -t devpts devpts "$root/dev/pts"
cp "$package" "$root/tmp/makeway.deb"

inside() {
    chroot "$root" "$@"
}

is() {
    [ "$2" = "$3" ] || die "$1 is '$2', not '$3'"
}

inside apt-get -q -o Acquire::Check-Valid-Until=false update >/dev/null
inside apt-get install -y -q --no-install-recommends /tmp/makeway.deb >/dev/null || die "it cannot be installed"

is "the user" "$(inside stat -c '%U:%G %a' /var/lib/makeway)" "makeway:makeway-users 700"
is "the configuration" "$(inside stat -c '%U:%G %a' /etc/makeway/makeway.yaml)" "root:root 644"
is "the program" "$(inside stat -c '%U:%G %a' /opt/makeway/bin/makeway)" "root:root 755"
is "a file that others may change" "$(inside find /opt/makeway /etc/makeway ! -type l -perm /022)" ""
inside makeway --version
inside makeway check-config /etc/makeway/makeway.yaml >/dev/null
inside su -s /bin/sh makeway -c 'makeway demo' | grep -q 'urgent jobs started on time' || die "the demo failed"
inside sh -c 'test -s /usr/lib/systemd/system/makeway.service'
for page in makeway makeway-run makeway-stop makeway-demo; do
    inside sh -c "gzip -dc /usr/share/man/man1/$page.1.gz" | grep -q '^\.TH' || die "there is no man page $page"
done
inside bash -c '. /usr/share/bash-completion/completions/makeway' || die "the completion is no bash"

# Installed again it is an upgrade: a configuration that was changed stays.
echo '# changed' >>"$root/etc/makeway/makeway.yaml"
inside apt-get install -y -q --reinstall --no-install-recommends /tmp/makeway.deb >/dev/null || die "no upgrade"
is "the end of the configuration" "$(tail -n 1 "$root/etc/makeway/makeway.yaml")" "# changed"

# A daemon that runs gives everything back and ends when the package is removed.
inside install -d -o makeway -g makeway-users -m 750 /run/makeway
cat >"$root/etc/makeway/makeway.yaml" <<'END'
mode: act
adapter: {type: simulated}
metrics: {enabled: false}
journal: /var/lib/makeway/journal.sqlite
socket: /run/makeway/makeway.sock
END
inside setpriv --reuid makeway --regid makeway-users --clear-groups makeway run 2>"$root/tmp/daemon.log" &
daemon=$!
tries=0
until [ -S "$root/run/makeway/makeway.sock" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || die "the daemon does not start: $(cat "$root/tmp/daemon.log")"
    sleep 0.1
done
inside apt-get remove -y -q makeway >"$root/tmp/removal" || die "it cannot be removed"
grep -q '^The daemon has stopped' "$root/tmp/removal" || die "the daemon was not ended: $(cat "$root/tmp/removal")"
wait "$daemon" || die "the daemon has failed: $(cat "$root/tmp/daemon.log")"
daemon=
is "what is left of the program" "$(inside sh -c 'ls -d /opt/makeway /usr/bin/makeway 2>/dev/null')" ""
inside test -f /etc/makeway/makeway.yaml || die "the configuration is gone before the purge"
inside apt-get purge -y -q makeway >/dev/null || die "it cannot be purged"
is "what is left" "$(inside sh -c 'ls -d /etc/makeway /var/lib/makeway 2>/dev/null; getent passwd makeway; getent group makeway makeway-users')" ""
echo "test-deb: $(basename "$package") was installed, tried, upgraded and purged in a clean $suite"
