#!/usr/bin/env bash
# Fetches the CUDA toolkit that kernels/nvidia builds with, as PyPI's wheels, and puts headers and libraries in
# .deps/cuda (1 GB unpacked). No driver and no compiler is among them. Does nothing if they are there already.
set -euo pipefail
cd "$(dirname "$0")/.."

# These versions are tested together. The CUDA part of their numbers (13.0) is what the driver must support at least.
wheels=(nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85
  nvidia-cublas==13.1.0.3 nvidia-cudnn-cu13==9.19.0.56)

[ -e .deps/cuda/lib/libcudnn.so.9 ] && exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "cuda: fetching ${wheels[*]}" >&2
if ! python3 -m pip --version >/dev/null 2>&1 || ! command -v unzip >/dev/null; then
  echo "cuda: pip and unzip are needed: apt-get install python3-pip unzip" >&2
  exit 1
fi
python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: -d "$work" "${wheels[@]}"

# One folder for all, because each library looks for the others beside itself. What neither we nor cuDNN's
# convolutions need is left out: half of the bytes.
for file in "$work"/*.whl; do
  unzip -qo "$file" -d "$work/unpacked"
  rm "$file"
done
(cd "$work"/unpacked/nvidia && rm -f ./*/lib/{*.a,*.alt.so*,libcudnn_adv.so*,libcublas.so*,libnvblas.so*})
mkdir -p .deps "$work/cuda"
for folder in include lib; do
  mkdir "$work/cuda/$folder"
  cp -r "$work"/unpacked/nvidia/*/$folder/* "$work/cuda/$folder/"
done
rm -rf .deps/cuda
mv "$work/cuda" .deps/cuda
