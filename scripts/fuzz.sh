#!/usr/bin/env bash
# Builds the fuzzers with clang and runs each for a while, from the corpus in fuzz/corpus. Needs
# clang, its sanitizers and libFuzzer: Debian's clang and libclang-rt-14-dev.
#
#   scripts/fuzz.sh [SECONDS] [FUZZER...]     default: 600 seconds for each of them
#
# What a fuzzer finds it leaves in build/fuzz/found; put it into fuzz/corpus with what mends it.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

readonly SECONDS_EACH=${1:-600}
[ $# -le 1 ] && set -- "$SECONDS_EACH" \
  auth bulk data element handshake journal kubernetes native peer stock store tls
shift
readonly BUILD=$setup_root/build/fuzz

setup_packages
if ! command -v clang++ >/dev/null ||
  [ ! -e "$(clang++ -print-file-name=libclang_rt.fuzzer-x86_64.a)" ]; then
  setup_say "The fuzzers need clang with libFuzzer: apt-get install clang libclang-rt-14-dev" >&2
  exit 2
fi

fuzz_configure() {
  local launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  CC=clang CXX=clang++ cmake -S "$setup_root" -B "$BUILD" -G Ninja "${launcher[@]}" \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DLOCKSTEP_FUZZ=ON -DLOCKSTEP_SANITIZE=address,undefined \
    -DCMAKE_RUNTIME_OUTPUT_DIRECTORY="$BUILD/bin"
}

setup_step "configure fuzz" fuzz_configure
setup_step "build fuzz: $*" cmake --build "$BUILD" -j "$(setup_jobs)" --target "${@/%/_fuzzer}"

failed=0
for fuzzer in "$@"; do
  mkdir -p "$BUILD/new/$fuzzer" "$BUILD/found"
  log=$BUILD/$fuzzer.log
  if "$BUILD/bin/${fuzzer}_fuzzer" -max_total_time="$SECONDS_EACH" -timeout=10 -print_final_stats=1 \
    -artifact_prefix="$BUILD/found/${fuzzer}-" "$BUILD/new/$fuzzer" \
    "$setup_root/fuzz/corpus/$fuzzer" >"$log" 2>&1; then
    printf '  ok      %-10s %s runs, nothing found\n' "$fuzzer" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
  else
    printf '  FAILED  %-10s see %s\n' "$fuzzer" "$log"
    tail -n 30 "$log"
    failed=$((failed + 1))
  fi
done
exit "$failed"
