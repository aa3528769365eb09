#!/usr/bin/env bash
# format.sh [--check]: formats our sources in place, or fails where they are not formatted. clang-format 14: versions differ in their output.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=(-i)
[ "${1:-}" != --check ] || mode=(--dry-run -Werror -ferror-limit=1)
find . \( -path ./build -o -path ./.git \) -prune -o \( -name '*.h' -o -name '*.hpp' -o -name '*.cpp' -o -name '*.c' \) -print0 |
  xargs -0 clang-format-14 --style=file "${mode[@]}"
