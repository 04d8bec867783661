#!/bin/sh
# Writes what stands below "---- before" in each golden dump anew: tests/golden_dumps/regenerate.sh
# [BUILD_DIR, default: build]. Then review `git diff`. A new dump is a file with a graph in it:
# tests/compiler/graph_text.h says how it is written.
set -eu
cd "$(dirname "$0")/../.."
cmake --build "${1:-build}" --target golden_dump_test
ACT_REGENERATE_GOLDEN_DUMPS=1 "${1:-build}/bin/golden_dump_test"
git diff --stat tests/golden_dumps
