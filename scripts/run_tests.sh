#!/usr/bin/env bash
# Runs the tests of a build folder. Prints the whole output of each test that fails, and a summary.
#   run_tests.sh BUILD [JOBS [REGEX]]
# Tests named Long/... run only with ACT_LONG_TESTS=1.
set -uo pipefail
cd "$(dirname "$0")/.."
build=$1 jobs=${2:-$(nproc)} regex=${3:-.}
log=$build/tests.log
skip='^Long/'
[ -z "${ACT_LONG_TESTS:-}" ] || skip='^$'
start=$SECONDS
# Tests run in parallel. So a thread that waits leaves its core to another test and does not spin.
export OMP_WAIT_POLICY=passive
# Kernels of the card that tests play are compiled once for all tests, and the user's own are left alone.
export ACT_KERNEL_CACHE=$PWD/$build/kernels ACT_FAKE_CACHE=$PWD/$build/fake_kernels
# Tests compare bits, so kernels are chosen in a fixed order and not by time.
export ACT_TUNE=off
# Read by tests and tools that were built with a sanitizer (make asan). SIGBUS, for which tests wait, ends a
# process as it does without the sanitizer.
export ASAN_OPTIONS=handle_sigbus=0
export LSAN_OPTIONS=suppressions=$PWD/scripts/leaks_of_others.txt:print_suppressions=0
ctest --test-dir "$build" -j "$jobs" --output-on-failure --no-tests=error -R "$regex" -E "$skip" 2>&1 | tee "$log" | awk '
  # A line is " 12/340 Test  #12: Suite.Name ....   Passed    0.02 sec". A test that did not pass
  # has "***Failed", "***Timeout" or the like there.
  / Test +#[0-9]+: / {
    name = $0; sub(/.* Test +#[0-9]+: /, "", name); sub(/ .*/, "", name)
    showing = 0
    if (/ Passed /) passed++
    else if (/Skipped|Not Run \(Disabled\)/) { skipped++; print "skipped: " name }
    else { failed++; print "FAILED: " name; showing = 1 }
    if (++seen % 50 == 0) { split($1, count, "/"); print count[1] " of " count[2] " tests" }
    fflush(); next
  }
  /^ *Start +[0-9]+: / { next }
  /% tests passed/ { showing = 0 }
  /^No tests were found|^CMake Error/ { print }
  showing { print "  " $0 }
  END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }'
status=${PIPESTATUS[0]}
echo "in $((SECONDS - start)) s; all output is in $log"
exit "$status"
