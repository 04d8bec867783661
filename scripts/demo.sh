#!/usr/bin/env bash
# Trains the same ResNet on real handwritten digits twice, with exact and with compressed
# activations, and compares memory, time and accuracy. Then plans the memory of ResNet-50. Needs the
# tools (make).
#   demo.sh [BUILD]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
out=$build/demo
mkdir -p "$out"

show() {
  printf '\n$ %s\n' "${*//$build\/bin\//}"
  "$@"
}

digits=models/data/digits
for level in L0 L3; do
  show "$build/bin/actc" models/digits_resnet.onnx -O $level -o "$out/$level.plan" --optimizer=sgd --batch=64 \
    --report=none --report-json="$out/$level.plan.json"
  show "$build/bin/actrun" "$out/$level.plan" --batch=64 --epochs=20 \
    --data=image=$digits/train_image.npy,label=$digits/train_label.npy \
    --eval-data=image=$digits/test_image.npy,label=$digits/test_label.npy \
    --lr=0.1 --momentum=0.9 --weight-decay=5e-4 --lr-schedule=cosine --seed=1 \
    --save="$out/$level.safetensors" --report-json="$out/$level.run.json"
done

for level in L0 L3; do
  show "$build/bin/actc" models/zoo/resnet50.onnx -O $level --batch=16 --report-json="$out/resnet50_$level.json"
done

echo
python3 scripts/demo_table.py "$out"
