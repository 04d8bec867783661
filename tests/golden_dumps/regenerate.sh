#!/bin/sh
# Rewrites the part below "---- before" in each golden dump: tests/golden_dumps/regenerate.sh
# [BUILD_DIR, default: build]. Then review `git diff`. To add a dump, write a file that contains a
# graph, in the form that tests/compiler/graph_text.h describes.
set -eu
cd "$(dirname "$0")/../.."
cmake --build "${1:-build}" --target golden_dump_test
ACT_REGENERATE_GOLDEN_DUMPS=1 "${1:-build}/bin/golden_dump_test"
git diff --stat tests/golden_dumps
