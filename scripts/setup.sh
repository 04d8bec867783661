#!/usr/bin/env bash
# Installs what the build needs on Debian 12 or Ubuntu 24.04. Packages come from apt. What the
# release lacks goes into .deps: ONNX's current .proto, and oneDNN 3 if the release has version 2.
# Does nothing if everything is installed. Needs root or sudo. Without apt it names what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

onednn=2023.2.0 # oneDNN 3.2, built with GNU OpenMP
onnx=1.23.2

sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo"
installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'; }
candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: \([0-9].*\)/\1/p'; }
install() {
  echo "setup: installing $*" >&2
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
# Package lists are refreshed once, and only if something is to be installed.
refresh() {
  [ -n "${refreshed:-}" ] || $sudo apt-get update -qq
  refreshed=1
}

if ! command -v apt-get >/dev/null; then
  echo "setup: no apt-get here; cmake names each library that it does not find" >&2
  exit 0
fi

packages=(g++ cmake ninja-build ccache git python3 unzip ca-certificates libzstd-dev zlib1g-dev libhwy-dev
  libprotobuf-dev protobuf-compiler libflatbuffers-dev flatbuffers-compiler libgtest-dev libbenchmark-dev
  libonnx-testdata libboost-context-dev libmimalloc-dev)
[ "$(dpkg --print-architecture)" != amd64 ] || packages+=(libxbyak-dev)
missing=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done
has_llvm=""
for version in 22 21 20 19 18 17 16; do
  installed "llvm-$version-dev" && has_llvm=1
done
if [ ${#missing[@]} -gt 0 ] || [ -z "$has_llvm" ]; then
  refresh
  if [ -z "$has_llvm" ]; then
    for version in 19 18 17 16; do # the newest in the release, at most the one that is tested
      if [ -n "$(candidate "llvm-$version-dev")" ]; then
        missing+=("llvm-$version-dev")
        break
      fi
    done
  fi
  install "${missing[@]}"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Wheels are zip files: unpacking them needs no virtual environment and touches no system Python.
wheel() {
  if ! python3 -m pip --version >/dev/null 2>&1; then
    refresh
    install python3-pip
  fi
  python3 -m pip download -q --disable-pip-version-check --no-deps -d "$work" "$@"
}

# Everything is fetched before anything is moved into place, so an interrupted setup starts over.
if [ ! -e .deps/proto/onnx-ml.proto ]; then
  echo "setup: fetching the .proto of ONNX $onnx" >&2
  wheel --only-binary=:all: --python-version 3.12 --platform manylinux_2_27_x86_64 --platform manylinux_2_28_x86_64 \
    "onnx==$onnx"
  mkdir -p .deps/proto
  unzip -qoj "$work"/onnx-*.whl onnx/onnx-ml.proto -d "$work"
  mv "$work/onnx-ml.proto" .deps/proto/
fi

if [ ! -e .deps/lib/libdnnl.so.3 ] && ! [[ "$(dpkg-query -W -f='${Version}' libdnnl-dev 2>/dev/null)" =~ ^[3-9]\. ]]; then
  if [[ "$(candidate libdnnl-dev)" =~ ^[3-9]\. ]]; then
    refresh
    install libdnnl-dev
  else
    echo "setup: fetching oneDNN $onednn" >&2
    wheel "onednn-devel-cpu-gomp==$onednn" "onednn-cpu-gomp==$onednn"
    for file in "$work"/onednn*.whl; do unzip -qo "$file" -d "$work/onednn"; done
    mkdir -p .deps
    cp -r "$work"/onednn/*.data/data/* .deps/
    # Wheels cannot hold links, so the library comes three times.
    ln -sf libdnnl.so.3.2 .deps/lib/libdnnl.so
    ln -sf libdnnl.so.3.2 .deps/lib/libdnnl.so.3
  fi
fi
