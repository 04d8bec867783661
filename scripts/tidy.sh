#!/usr/bin/env bash
# Runs clang-tidy over the sources in a build folder's compile_commands.json. Prints findings alone.
#   tidy.sh BUILD [JOBS [FILE...]]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 jobs=${2:-$(nproc)}
shift $(($# < 2 ? $# : 2))
command -v clang-tidy >/dev/null || { echo "tidy: clang-tidy is missing: apt-get install clang-tidy" >&2; exit 1; }
if [ $# -eq 0 ]; then
  mapfile -t files < <(git ls-files '*.cc')
else
  files=("$@")
fi
# Only g++ reads the headers that it has precompiled for tests.
commands=$(mktemp -d)
trap 'rm -rf "$commands"' EXIT
sed 's/-Winvalid-pch -include [^ ]*//' "$build/compile_commands.json" >"$commands/compile_commands.json"
# Nor does clang know -Wshadow=local and some other warnings.
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$jobs" sh -c 'clang-tidy --quiet -p "$0" --extra-arg=-Wno-unknown-warning-option "$1" 2>/dev/null' "$commands"
echo "tidy: ${#files[@]} files"
