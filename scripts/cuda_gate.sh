#!/usr/bin/env bash
# Compiles every kernel of the golden cases, of the demo and of ResNet-50 and -152, at L0, L3 and L4, for a card of each
# generation, without one: no warning, no stack frame, no spill (tests/unit/card_compiler.h). Says how long it took, and
# how many registers kernels take. Their sources stay in BUILD/cuda_gate, with a list of their registers.
#   cuda_gate.sh BUILD [f32|bf16]
set -euo pipefail
build=$1 compute=${2:-f32}
sources=$build/cuda_gate
rm -rf "$sources"
mkdir -p "$sources"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
models=(tests/golden/*/model*.onnx models/digits_resnet.onnx models/zoo/resnet50.onnx models/zoo/resnet152.onnx)
for model in "${models[@]}"; do
  for level in L0 L3 L4; do
    "$build/bin/actc" "$model" -O "$level" --compute="$compute" -o "$work/plan" --target=cuda --init=he --report=none
    "$build/bin/actplan" show "$work/plan" --kernels --target=cuda:h200 --dump-kernels="$work/sources" >"$work/kernels"
    # Kernels that plans have in common are compiled once.
    for source in "$work"/sources/*.cu; do
      name=$(basename "$source" .cu)
      mv "$source" "$sources/${name%%.*}.$(cksum <"$source" | cut -d' ' -f1).cu"
    done
    echo "$model $level: $(grep -c ': c[a-z]*\.' "$work/kernels") kernels, $(grep -c ': cuda\.host' "$work/kernels" || true) on the host" >&2
  done
done
printf '%s\0' "$sources"/*.cu | xargs -0 -n 100000 "$build/bin/card_gate" >"$sources/registers"
