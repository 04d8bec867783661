#!/usr/bin/env bash
# Installs what the build needs on Debian 12 or Ubuntu 24.04: packages by apt, oneDNN 3 and ONNX's proto from PyPI into .deps.
# Does nothing where all is there. Run as root, or with sudo available.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(g++ cmake ninja-build ccache python3 unzip llvm-19-dev libzstd-dev zlib1g-dev libhwy-dev librandom123-dev
  libprotobuf-dev protobuf-compiler libflatbuffers-dev flatbuffers-compiler libgtest-dev libbenchmark-dev)
missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
done
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo"
if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing ${missing[*]}"
  $sudo apt-get update -qq
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

onednn=2023.2.0
onnx=1.23.2
if [ ! -e .deps/lib/libdnnl.so.3 ] || [ ! -e .deps/proto/onnx-ml.proto ]; then
  echo "setup: fetching oneDNN $onednn and ONNX's proto $onnx into .deps"
  if ! python3 -m pip --version >/dev/null 2>&1; then
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-pip >/dev/null
  fi
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  # Wheels are zip files: unpacking them needs no virtual environment and touches no system Python.
  python3 -m pip download -q --no-deps -d "$work" "onednn-devel-cpu-gomp==$onednn" "onednn-cpu-gomp==$onednn"
  python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --platform manylinux_2_27_x86_64 \
    --platform manylinux_2_28_x86_64 -d "$work" "onnx==$onnx"
  mkdir -p .deps/proto
  for wheel in "$work"/onednn*.whl; do unzip -qo "$wheel" -d "$work/onednn"; done
  cp -r "$work"/onednn/*.data/data/* .deps/
  # Wheels cannot hold links, so the library comes three times.
  ln -sf libdnnl.so.3.2 .deps/lib/libdnnl.so.3
  ln -sf libdnnl.so.3.2 .deps/lib/libdnnl.so
  unzip -qoj "$work"/onnx-*.whl onnx/onnx-ml.proto -d .deps/proto
fi
