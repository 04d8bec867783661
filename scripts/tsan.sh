#!/usr/bin/env bash
# Builds the tests with clang's thread sanitizer, and runs those of the runtime and of the CPU's kernels.
#   tsan.sh JOBS [TEST...]      TEST: a program of tests, as executor_test
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$1
shift
if ! command -v clang++ >/dev/null; then
  echo "error: clang++ was not found" >&2
  echo "hint: apt-get install clang libomp-dev" >&2
  exit 1
fi
build=build-tsan
mkdir -p $build
cmake --preset tsan >$build/configure.log 2>&1 || { cat $build/configure.log; exit 1; }
tests=("$@")
if [ ${#tests[@]} -eq 0 ]; then
  # Tests of documents and of the card that a processor plays have no threads of ours: that card runs on fibers.
  for source in tests/unit/*_test.cc tests/compiler/choose_reruns_test.cc tests/e2e/{data,saving}_test.cc; do
    name=$(basename "$source" .cc)
    [[ $name =~ cuda|nvidia|documents|layers|math_headers ]] || tests+=("$name")
  done
fi
cmake --build --preset tsan -j "$jobs" --target "${tests[@]}"

# Archer tells the sanitizer in which order the threads of clang's OpenMP meet. oneDNN asks for GCC's OpenMP, which
# clang's can stand in for. oneDNN itself is not instrumented.
libomp=$(clang++ -print-file-name=libomp.so)
mkdir -p $build/openmp
ln -sf "$(readlink -f "$libomp")" $build/openmp/libgomp.so.1
export LD_LIBRARY_PATH=$PWD/$build/openmp${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export OMP_TOOL_LIBRARIES="$(dirname "$libomp")/libarcher.so"
# handle_sigbus=0: tests meet the signal of a file that was cut off, not the sanitizer's report of it.
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:history_size=7:handle_sigbus=0
# More threads than cores: their order changes more often.
export OMP_NUM_THREADS=4 ACT_TUNE=off
# Under the small limit of file sizes of this test, clang's OpenMP, which keeps a file in /dev/shm, ends by SIGBUS.
export GTEST_FILTER=-Saving.AFullDiskIsAWarningOnTheWayAndAnErrorAtTheEnd
failed=0
for name in "${tests[@]}"; do
  log=$build/$name.log
  start=$SECONDS
  if $build/bin/"$name" >"$log" 2>&1; then
    echo "$name: $(grep -c '^\[       OK' "$log") tests, $((SECONDS - start)) s"
  else
    failed=1
    echo "$name: FAILED, $((SECONDS - start)) s, $log"
    grep -E -A12 -m3 'WARNING: ThreadSanitizer|^\[  FAILED|: Failure' "$log" || tail -5 "$log"
  fi
done
exit $failed
