#!/bin/sh
# Builds packages of makeway with the Python of this machine, and prints their paths, a line each:
#     build.sh PACKAGERS PYTHON FOLDER
# PACKAGERS is deb, rpm, or "deb rpm". PYTHON has makeway's development tools (`make` installs them in .venv). FOLDER gets the
# packages. A package brings its libraries in /opt/makeway, and uses the system's Python of the same minor version.
set -eu

packagers=$1
python=$2
mkdir -p "$3"
out=$(cd "$3" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

die() {
    echo "build: $1" >&2
    exit 2
}

wanted=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
[ -x "/usr/bin/python$wanted" ] || die "there is no /usr/bin/python$wanted: make .venv with the system's Python"
case $(uname -m) in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) architecture=$(uname -m) ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stage=$work/stage
opt=$stage/opt/makeway
library=$opt/lib/python$wanted/site-packages
umask 022
mkdir -p "$opt/bin" "$library" "$stage/usr/bin" "$stage/usr/lib/systemd/system" "$stage/usr/share/man/man1" \
    "$stage/usr/share/doc/makeway" "$stage/usr/share/bash-completion/completions" \
    "$stage/usr/share/fish/vendor_completions.d" "$work/files"

# A virtual environment, as PEP 405 has it, at the place where it will be. The wheel is built from the sdist alone.
(cd "$root" && "$python" -m build --quiet --outdir "$work" .) >/dev/null
"$python" -m pip install --quiet --quiet --no-compile --target "$library" "$(ls "$work"/*.whl)[page]"
rm -rf "${library:?}/bin" "${library:?}/share"
printf 'home = /usr/bin\ninclude-system-site-packages = false\nversion = %s\n' "$wanted" >"$opt/pyvenv.cfg"
ln -s "/usr/bin/python$wanted" "$opt/bin/python"
ln -s python "$opt/bin/python3"
cat >"$opt/bin/makeway" <<'END'
#!/opt/makeway/bin/python
import sys

from makeway.daemon.cli.start import main

sys.exit(main())
END
chmod 755 "$opt/bin/makeway"
"/usr/bin/python$wanted" -m compileall -q -s "$stage" -p / "$library" || die "the libraries cannot be compiled"
install -m 644 "$root/deploy/makeway-job.sh" "$opt/makeway-job.sh"
install -m 755 "$root/deploy/makeway-done" "$opt/makeway-done"

ln -s /opt/makeway/bin/makeway "$stage/usr/bin/makeway"
install -m 644 "$root/deploy/makeway.service" "$root/deploy/makeway-page.service" "$stage/usr/lib/systemd/system"
install -m 644 "$root/deploy/makeway-slurm.yaml" "$work/files/makeway.yaml"
"$python" "$here/man_pages.py" "$stage/usr/share/man/man1"
gzip -9n "$stage"/usr/share/man/man1/*.1
"$python" -m makeway.daemon.cli.main completion bash >"$stage/usr/share/bash-completion/completions/makeway"
"$python" -m makeway.daemon.cli.main completion zsh >"$work/files/_makeway"
"$python" -m makeway.daemon.cli.main completion fish >"$stage/usr/share/fish/vendor_completions.d/makeway.fish"
gzip -9nc "$root/CHANGELOG.md" >"$stage/usr/share/doc/makeway/changelog.gz"
for name in alerts.yaml grafana-dashboard.json job_submit.lua JOBS.md; do
    install -m 644 "$root/deploy/$name" "$stage/usr/share/doc/makeway/$name"
done
install -d "$stage/usr/share/doc/makeway/examples"
install -m 644 "$root"/deploy/examples/*.sh "$root"/deploy/examples/*.py "$stage/usr/share/doc/makeway/examples"
install -m 644 "$root/LICENSE" "$work/files/LICENSE"

version=$("$python" -c 'from importlib.metadata import version; print(version("makeway"))')
export MAKEWAY_VERSION="$version" MAKEWAY_PYTHON="$wanted" MAKEWAY_ARCHITECTURE="$architecture"
cp "$here"/*.sh "$work"
nfpm=$(dirname "$python")/nfpm
for packager in $packagers; do
    said=$(cd "$work" && "$nfpm" package --config "$here/nfpm.yaml" --packager "$packager" --target "$out" 2>&1) || die "nfpm: $said"
    echo "$said" | sed -n 's/^created package: //p'
done
