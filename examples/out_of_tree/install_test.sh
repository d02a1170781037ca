#!/usr/bin/env bash
# Installs the client into an empty prefix, and builds the example against that alone: with
# find_package and with pkg-config. Argument: the build folder.
set -euo pipefail
build=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --build "$build" --target lockstep_client lockstep_client_sources >/dev/null
cmake --install "$build" --component client --prefix "$work/prefix" >/dev/null
sanitize=$(sed -n 's/^LOCKSTEP_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
flags=${sanitize:+-fsanitize=$sanitize}

# The source alone, so that no header of ours is found beside it.
mkdir "$work/source"
cp -r "$here" "$here/../hello_member.cc" "$here/../preempted_member.cc" "$work/source"
cmake -S "$work/source/out_of_tree" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_FLAGS="$flags" >/dev/null
cmake --build "$work/build"

# What pkg-config says follows from where its file lies.
pc=$(dirname "$(find "$work/prefix" -name lockstep.pc)")
PKG_CONFIG_PATH=$pc pkg-config --static --cflags --libs lockstep >"$work/flags"
# shellcheck disable=SC2046
c++ -std=c++20 $flags "$work/source/hello_member.cc" -o "$work/with_pkg_config" $(cat "$work/flags")

# Both start, and say in a sentence what they miss.
for program in "$work/build/hello_member" "$work/build/preempted_member" "$work/with_pkg_config"; do
  text=$(env -u LOCKSTEP_JOB "$program" 2>&1) && { echo "$program joined nothing"; exit 1; }
  [[ $text == *LOCKSTEP_JOB* ]] || { echo "$program says: $text"; exit 1; }
  needed=$(ldd "$program")
  for library in grpc protobuf spdlog ssl; do
    [[ $needed != *$library* ]] || { echo "$program needs $library"; exit 1; }
  done
done
echo "built out of tree, with find_package and with pkg-config"
