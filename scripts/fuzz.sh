#!/usr/bin/env bash
# Builds the fuzz targets with clang, and runs one or each of them under libFuzzer (tests/fuzz/README.md).
#   fuzz.sh JOBS TIME [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$1 time=$2
shift 2
case $time in
  *h) seconds=$((${time%h} * 3600)) ;;
  *m) seconds=$((${time%m} * 60)) ;;
  *) seconds=${time%s} ;;
esac
if ! command -v clang++ >/dev/null; then
  echo "error: clang++ was not found" >&2
  echo "hint: apt-get install clang libclang-rt-14-dev libomp-dev, or run build/bin/NAME_fuzz of a GCC build" >&2
  exit 1
fi
build=build-fuzz
mkdir -p $build
cmake --preset fuzz >$build/configure.log 2>&1 || { cat $build/configure.log; exit 1; }
cmake --build --preset fuzz -j "$jobs" --target fuzz_targets
names=("$@")
[ ${#names[@]} -gt 0 ] || for program in $build/bin/*_fuzz; do names+=("$(basename "$program" _fuzz)"); done
# One thread: an input's course must not depend on another's.
export OMP_NUM_THREADS=1
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=0 UBSAN_OPTIONS=print_stacktrace=1
failed=0
for name in "${names[@]}"; do
  echo "== $name, $seconds s"
  mkdir -p "$build/corpus/$name" "$build/crashes/$name"
  log=$build/$name.log
  "$build/bin/${name}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=1048576 \
    -print_final_stats=1 -artifact_prefix="$build/crashes/$name/" "$build/corpus/$name" \
    "tests/fuzz/corpus/$name" 2>&1 | tee "$log" || failed=1
  # Edges are branches between blocks of code, of the target and all that is linked into it.
  inputs=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
  reached=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
  all=$(sed -n 's/^INFO: Loaded .* (\([0-9]*\) inline 8-bit counters).*/\1/p' "$log" | head -1)
  echo "== $name: ${inputs:-?} inputs, ${reached:-?} of ${all:-?} edges"
done
exit $failed
