#!/usr/bin/env bash
# How far the arena of each step of each MODEL ends above its lower bound, at levels L0 to L5 and batches 1, 3, 16 and
# 512, and its spread over five seeds of the packing search. A line a step: model, level, batch, the ratio, the lowest
# and the highest of the five. The steps that are farthest above their bound come first.
#   arena_spread.sh BUILD JOBS MODEL...
# LEVELS, BATCHES and OPTIONS (of actc) name others: LEVELS="L3 L4" OPTIONS=--compute=bf16 arena_spread.sh ...
set -euo pipefail
build=$1 jobs=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export build work options=${OPTIONS:-}

step() {
  local model=$1 level=$2 batch=$3
  local name plan
  name="$(basename "$model" .onnx) $level $batch"
  plan="$work/${name// /.}"
  # shellcheck disable=SC2086  # several options
  if "$build/bin/actc" "$model" -O "$level" --batch="$batch" --init=he --report=none $options -o "$plan" \
    2>"$plan.error"; then
    echo "$name $("$build/bin/arena_spread" "$plan" --batch="$batch")"
  else
    echo "$name: $(head -n 1 "$plan.error")" >&2
  fi
  rm -f "$plan" "$plan.error"
}
export -f step

for model in "$@"; do
  for level in ${LEVELS:-L0 L1 L2 L3 L4 L5}; do
    for batch in ${BATCHES:-1 3 16 512}; do printf '%s\0' "$model" "$level" "$batch"; done
  done
done | OMP_NUM_THREADS=1 xargs -0 -n 3 -P "$jobs" bash -c 'step "$@"' - | sort -k 4,4gr -k 1,3
