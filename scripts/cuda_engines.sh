#!/usr/bin/env bash
# Writes a table of cuDNN's engines for the convolutions of the golden cases and of whole networks, for cards that need
# not be there, to standard output.
#   cuda_engines.sh BUILD [FOLDER]     FOLDER: more models, *.onnx
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1/bin
plans=$1/cuda_engines
rm -rf "$plans"
mkdir -p "$plans"

arguments=()
# A model that does not compile by itself is left out, with a line to standard error.
add() { # MODEL ROW BATCH
  local plan
  plan=$plans/$(echo "${1%.onnx}" | tr / _).plan
  if "$bin/actc" "$1" -O L0 --init=he --report=none -o "$plan" 2>"$plan.log"; then
    arguments+=("$2=$plan:$3")
  else
    echo "cuda_engines: $(head -n 1 "$plan.log")" >&2
  fi
}

declare -A seen
for model in models/digits_resnet.onnx models/zoo/*.onnx ${2:+"$2"/*.onnx}; do
  name=$(basename "$model" .onnx)
  [ -n "${seen[$name]:-}" ] || add "$model" "$name" 256
  seen[$name]=1
done
for model in tests/golden/*/*.onnx; do
  add "$model" golden 8
done

cat <<'TEXT'
# Engines of convolutions
cuDNN's engines for every distinct convolution of a training step (forward and both gradients, at level L0), asked
without a card: by the descriptions in kernels/nvidia/cards. An engine has to be deterministic, and float32 to use no
tensor cores; its workspace is at most 64 MiB and at most twice the operands. The first that cuDNN's heuristics name
is taken, for all samples or for a part of them at a time (../cuda.md, "Engines of convolutions"). A cell is the
largest workspace that these take; in brackets, how many of those for tf32 use no tensor cores within the bound; in
bold, how many convolutions have no engine: those run on kernels of our own. Depthwise convolutions always do, and are
not counted. `make cuda-engines` writes this file.

TEXT
"$bin/cuda_engines" "${arguments[@]}"
