#!/usr/bin/env bash
# Makes a fresh Debian 12 ready: packages, Python environments, builds. Every step is skipped when
# there is nothing to do, so the other scripts call this first and a second run is quick.
#
#   scripts/setup.sh               everything that demo.sh and test.sh need (preset: release)
#   scripts/setup.sh packages      only the Debian packages
#   scripts/setup.sh venvs         only build/venv and build/peers/*
#   scripts/setup.sh torch         build/peers/torch: what the demo's PyTorch job runs with
#   scripts/setup.sh jax-versions  build/peers/jax-0.10.0, -0.10.1: further stock JAX for scripts/soak.sh
#   scripts/setup.sh frameworks    build/peers/frameworks: torch, tensorflow and jax in one environment
#   scripts/setup.sh transfers     peers of bench/rendezvous: UCX and Open MPI
#   scripts/setup.sh etcd          build/peers/etcd: Debian's etcd, for the tests of --state etcd://
#   scripts/setup.sh linters       clang-format, clang and clang-tidy, for the lints of scripts/test.sh
#   scripts/setup.sh schedulers    Open MPI and Slurm, for tests/e2e/test_run_schedulers.py
#   scripts/setup.sh loaders       build/peers/loaders: peers of bench/data: torch, tensorflow and grain
#   scripts/setup.sh build PRESET [TARGET...]
#
# Sourced by other scripts it only defines the setup_* functions. Takes from the environment:
#   LOCKSTEP_JOBS   how many compilers at a time (default: one per core)
set -euo pipefail

setup_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Debian's own compilers, cmake and python before anything else that may be installed.
export PATH="/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH"
export PYTHONDONTWRITEBYTECODE=1
# Only where ccache is installed: lets checkouts in different directories share results.
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$setup_root

readonly SETUP_PACKAGES=(
  # What builds; Python's protobuf for what makes the messages.
  g++ cmake ninja-build pkg-config protobuf-compiler protobuf-compiler-grpc python3-protobuf
  # What the library and the `lockstep` program are made of.
  libabsl-dev libasio-dev libboost-dev libprotozero-dev nlohmann-json3-dev libcli11-dev libspdlog-dev
  libyaml-cpp-dev libxxhash-dev
  # What the server answers Prometheus with.
  prometheus-cpp-dev
  # The listeners for stock clients, server only; the rest of the line is what gRPC's CMake files ask for.
  libgrpc++-dev libprotobuf-dev libre2-dev libc-ares-dev zlib1g-dev libssl-dev
  # The journal, server only.
  libsqlite3-dev
  # Tests, and Python for the scripts, the examples and stock JAX.
  libgtest-dev libgmock-dev libcpp-httplib-dev python3 python3-venv ca-certificates
  # The Python extension; nm and readelf, by which its test looks at it.
  python3-dev binutils
  # setarch, for the sanitizers.
  util-linux
  # Hosts as network namespaces, for tests/cluster.
  iproute2
)

# What bench/rendezvous/run.py compares with, besides gRPC and torch.
readonly SETUP_TRANSFER_PACKAGES=(ucx-utils openmpi-bin libopenmpi-dev)

# Real schedulers, by which tests/e2e/test_run_schedulers.py starts `lockstep run`.
readonly SETUP_SCHEDULER_PACKAGES=(openmpi-bin slurmctld slurmd slurm-client munge)

# What scripts/test.sh looks at the sources with.
readonly SETUP_LINT_PACKAGES=(clang-format clang-14 clang-tidy-14)

setup_say() { printf '%s\n' "$*"; }

# setup_step TEXT COMMAND...: runs the command with its output in a log; shows the log when it
# fails, and how long it took when that is worth saying.
setup_step() {
  local text=$1 start=$SECONDS log
  shift
  log=$(mktemp)
  printf '  %-44s' "$text"
  if "$@" >"$log" 2>&1 </dev/null; then
    printf '%5d s\n' $((SECONDS - start))
    rm -f "$log"
  else
    local code=$?
    printf 'failed (exit %d) after %d s; its output:\n' "$code" $((SECONDS - start))
    # Of a build, the first errors matter; of anything else, how it ended.
    grep -m 12 -E '^FAILED|[ :]error: ' "$log" || true
    printf '    ...\n'
    tail -n 20 "$log"
    rm -f "$log"
    return "$code"
  fi
}

# setup_missing_packages PACKAGE...
setup_missing_packages() {
  local package status
  for package in "$@"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || printf '%s\n' "$package"
  done
}

# setup_packages [PACKAGE...]: those, or what everything takes.
setup_packages() {
  [ $# -gt 0 ] || set -- "${SETUP_PACKAGES[@]}"
  if ! command -v dpkg-query >/dev/null; then
    setup_say "This is not Debian: install the packages of SETUP_PACKAGES in scripts/setup.sh by hand." >&2
    return 1
  fi
  local missing as_root=()
  mapfile -t missing < <(setup_missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
      setup_say "These Debian packages are missing, and installing them needs root, or sudo without a" \
        "password: ${missing[*]}" >&2
      setup_say "Run once:  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  setup_step "package lists" "${as_root[@]}" apt-get -q update
  setup_step "${#missing[@]} Debian packages" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -y --no-install-recommends -o Dpkg::Use-Pty=0 install "${missing[@]}"
}

# setup_venv DIRECTORY [REQUIREMENTS]: a virtual environment with those packages in it, made again
# when the requirements have changed.
setup_venv() {
  local directory=$1 requirements=${2:-/dev/null} stamp
  stamp=$( (sha256sum <"$requirements"; /usr/bin/python3 -V) | sha256sum | cut -c1-16)
  [ "$(cat "$directory/.stamp" 2>/dev/null || true)" != "$stamp" ] || return 0
  rm -rf "$directory"
  mkdir -p "$(dirname "$directory")"
  setup_step "${directory#"$setup_root"/}" setup_make_venv "$directory" "$requirements"
  printf '%s\n' "$stamp" >"$directory/.stamp"
}

setup_make_venv() {
  /usr/bin/python3 -m venv "$1" || return
  [ -s "$2" ] || return 0
  "$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
    --retries 5 -r "$2"
}

# build/venv is for what is ours; build/peers/* hold the programs we must get on with, unmodified.
setup_venvs() {
  setup_venv "$setup_root/build/venv" "$setup_root/python/requirements.txt"
  setup_package
  setup_venv "$setup_root/build/peers/jax" "$setup_root/tests/interop/requirements.txt"
  setup_venv "$setup_root/build/peers/jax-0.9.2" \
    "$setup_root/tests/interop/requirements-jax-0.9.2.txt"
  setup_venv "$setup_root/build/peers/tensorflow" \
    "$setup_root/tests/interop/requirements-tensorflow.txt"
}

# Only for scripts/soak.sh.
readonly SETUP_JAX_VERSIONS=(0.10.0 0.10.1)
setup_jax_versions() {
  local version
  for version in "${SETUP_JAX_VERSIONS[@]}"; do
    setup_venv "$setup_root/build/peers/jax-$version" \
      "$setup_root/tests/interop/requirements-jax-$version.txt"
  done
}

# Only for the demo.
setup_torch() {
  setup_venv "$setup_root/build/peers/torch" "$setup_root/tests/interop/requirements-torch.txt"
}

# Large, and only for tests/python/test_imports.py: made by the tests of the Python package.
setup_frameworks() {
  setup_venv "$setup_root/build/peers/frameworks" "$setup_root/tests/python/frameworks.txt"
}

# Large too, and only for bench/data/run.py.
setup_loaders() {
  setup_venv "$setup_root/build/peers/loaders" "$setup_root/bench/data/requirements.txt"
}

# Debian's etcd, unpacked and not installed: as a package it would start with the machine.
setup_etcd() {
  local directory=$setup_root/build/peers/etcd
  [ ! -x "$directory/usr/bin/etcdctl" ] || return 0
  setup_step "build/peers/etcd" setup_unpack_etcd "$directory"
}

setup_unpack_etcd() {
  local package
  rm -rf "$1" && mkdir -p "$1" || return
  (cd "$1" && apt-get -q download etcd-server etcd-client) || return
  for package in "$1"/*.deb; do
    dpkg -x "$package" "$1" || return
  done
  rm "$1"/*.deb
}

# Makes what the release build lays out importable in build/venv, and its programs runnable there.
setup_package() {
  local venv=$setup_root/build/venv site program
  site=$(echo "$venv"/lib/python3*/site-packages)
  [ ! -e "$site/lockstep.pth" ] || return 0
  for program in lockstep lockstep-agent lockstep-server; do
    ln -sf "$setup_root/build/bin/$program" "$venv/bin/$program"
  done
  printf '%s\n' "$setup_root/build/release/python" >"$site/lockstep.pth"
}

setup_jobs() {
  local jobs=${LOCKSTEP_JOBS:-$(nproc)} by_memory
  # The largest sources take up to 2 GiB each in the compiler.
  by_memory=$(awk '/MemAvailable/ {print int($2 / 2097152)}' /proc/meminfo)
  [ "$by_memory" -ge 1 ] || by_memory=1
  [ "$jobs" -le "$by_memory" ] || jobs=$by_memory
  printf '%s\n' "$jobs"
}

setup_configure() {
  local preset=$1 launcher=() python=()
  if command -v ccache >/dev/null; then
    # ccache finds nothing again that was compiled with a precompiled header made anew.
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache
      -DLOCKSTEP_PRECOMPILE=OFF)
  fi
  if [ "$preset" = release ]; then
    python=(-DLOCKSTEP_PYTHON=ON -DPython_EXECUTABLE="$setup_root/build/venv/bin/python")
  fi
  (cd "$setup_root" && cmake --preset "$preset" "${launcher[@]}" "${python[@]}")
}

# setup_build PRESET [TARGET...]: configures what is new or whose presets have changed, builds what
# is not up to date.
setup_build() {
  local preset=$1 directory=$setup_root/build/$1 stamp target_options=()
  shift
  stamp=$(cat "$setup_root"/{CMakePresets.json,python/requirements.txt,scripts/setup.sh} |
    sha256sum | cut -c1-16)
  if [ ! -e "$directory/build.ninja" ] ||
    [ "$(cat "$directory/.presets" 2>/dev/null || true)" != "$stamp" ]; then
    setup_step "configure $preset" setup_configure "$preset"
    printf '%s\n' "$stamp" >"$directory/.presets"
  fi
  # A dry run tells whether there is anything to do, and answers in a moment.
  if ninja -C "$directory" -n "$@" 2>/dev/null | grep -q 'no work to do'; then
    return 0
  fi
  [ $# -eq 0 ] || target_options=(--target "$@")
  setup_step "build $preset${*:+: $*}" \
    cmake --build "$directory" -j "$(setup_jobs)" "${target_options[@]}"
}

setup_main() {
  case ${1:-all} in
    all) setup_packages; setup_venvs; setup_etcd; setup_build release ;;
    packages) setup_packages ;;
    venvs) setup_venvs ;;
    torch) setup_torch ;;
    jax-versions) setup_jax_versions ;;
    frameworks) setup_frameworks ;;
    etcd) setup_etcd ;;
    loaders) setup_loaders ;;
    linters) setup_packages "${SETUP_LINT_PACKAGES[@]}" ;;
    schedulers) setup_packages "${SETUP_SCHEDULER_PACKAGES[@]}" ;;
    transfers) setup_packages "${SETUP_TRANSFER_PACKAGES[@]}" ;;
    build) shift; setup_build "${@:-release}" ;;
    *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; return 2 ;;
  esac
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  setup_main "$@"
fi
