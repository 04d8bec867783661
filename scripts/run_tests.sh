#!/usr/bin/env bash
# Runs the tests of a build folder: a line for each test program, the whole output of each test that fails, a summary.
#   run_tests.sh BUILD [JOBS [REGEX]]
set -uo pipefail
cd "$(dirname "$0")/.."
build=$1 jobs=${2:-$(nproc)} regex=${3:-}
log=$build/tests.log
ctest --test-dir "$build" -j "$jobs" --output-on-failure --no-tests=error ${regex:+-R "$regex"} 2>&1 | tee "$log" | awk '
  # " 12/340 Test  #12: Suite.Name ....   Passed    0.02 sec"
  / Test +#[0-9]+: / {
    split($1, count, "/"); name = $0; sub(/.* Test +#[0-9]+: /, "", name); sub(/ .*/, "", name)
    if (/Passed/) passed++; else if (/Skipped/) { skipped++; print "  skipped: " name }
    else { failed++; print "  FAILED: " name; showing = 1; next }
    showing = 0
    if (++seen % 50 == 0) print "  " seen " tests"
    next
  }
  /^The following tests/ { showing = 0 }
  /^No tests were found|^CMake Error/ { print }
  showing { print }
  END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }'
status=${PIPESTATUS[0]}
[ "$status" = 0 ] || echo "run_tests: the whole output is in $log" >&2
exit "$status"
