#!/usr/bin/env bash
# clang-tidy over the sources of a build folder (its compile_commands.json), findings only: tidy.sh BUILD [JOBS [FILE...]]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 jobs=${2:-$(nproc)}
shift $(($# < 2 ? $# : 2))
command -v clang-tidy >/dev/null || { echo "tidy: clang-tidy is missing: apt-get install clang-tidy" >&2; exit 1; }
if [ $# -eq 0 ]; then
  mapfile -t files < <(git ls-files 'compiler/*.cc' 'kernels/*.cc' 'passes/*.cc' 'runtime/*.cc' 'tools/*.cc')
else
  files=("$@")
fi
# -Wshadow=local and some -W are g++'s alone.
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$jobs" sh -c 'clang-tidy --quiet -p "$0" --extra-arg=-Wno-unknown-warning-option "$1" 2>/dev/null' "$build"
echo "tidy: ${#files[@]} files"
