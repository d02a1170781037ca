#!/usr/bin/env bash
# Formats all C++ sources with clang-format 14 (Debian's package clang-format) and our .clang-format.
#
#   scripts/format.sh            rewrites them
#   scripts/format.sh --check    only says which ones differ, and fails when there are any
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v /usr/bin/clang-format-14 >/dev/null; then
  printf 'clang-format 14 is not installed: apt-get install clang-format\n' >&2
  exit 2
fi
mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.h' '*.cc')
if [ "${1:-}" = --check ]; then
  differs() {
    local file
    for file in "$@"; do
      /usr/bin/clang-format-14 "$file" | cmp -s - "$file" || printf '%s\n' "$file"
    done
  }
  export -f differs
  mapfile -t differing < <(printf '%s\0' "${files[@]}" |
    xargs -0 -n 40 -P "$(nproc)" bash -c 'differs "$@"' differs)
  [ ${#differing[@]} -eq 0 ] || printf '%s\n' "${differing[@]}"
  printf '%d files, %d to format\n' "${#files[@]}" "${#differing[@]}"
  [ ${#files[@]} -gt 0 ] && [ ${#differing[@]} -eq 0 ]
else
  /usr/bin/clang-format-14 -i "${files[@]}"
fi
