#!/usr/bin/env bash
# setup.sh build|test: installs the Debian 12 packages that are missing for building rgen, or for its whole test suite.
# Touches neither the network nor the package database when nothing is missing.
# LLVM 19 (llvm-19-dev) is optional and large: CMake uses it when it is there, nothing here installs it.
set -euo pipefail

packages=(g++ cmake ninja-build pkg-config nlohmann-json3-dev libvalijson-dev libcli11-dev libfmt-dev libhwloc-dev doctest-dev libbenchmark-dev)
case "${1:-}" in
  build) ;;
  test) packages+=(clang clang-format-14 libeigen3-dev g++-aarch64-linux-gnu qemu-user) ;;
  *) echo "usage: $0 build|test" >&2; exit 2 ;;
esac

if ! command -v apt-get >/dev/null; then
  echo "setup: no apt-get here; needed are the equivalents of: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: cannot install without root or sudo; as root: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "setup: installing ${missing[*]}"
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The package lists may be old or absent; if they cannot be refreshed, those that exist may still do.
apt update >"$log" 2>&1 || { echo "setup: apt-get update failed:" >&2; tail -5 "$log" >&2; }
if ! apt install --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
  tail -20 "$log" >&2
  echo "setup: apt-get install failed" >&2
  exit 1
fi
