#!/usr/bin/env bash
# The longer counts, too long for every change: 2,000 seeds of the simulation against the clock, the
# same under the address sanitizer, and the interop tests that are marked `soak`.
#
#   scripts/soak.sh [SEEDS]     default 2000; give more for a night
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

seeds=${1:-2000}
limit_s=60
failed=0

soak() {  # soak TEXT COMMAND...
  local text=$1 start=$SECONDS
  shift
  if "$@" </dev/null; then
    printf '  ok      %-52s%5d s\n' "$text" $((SECONDS - start))
  else
    printf '  FAILED  %-52s%5d s\n' "$text" $((SECONDS - start))
    failed=$((failed + 1))
  fi
}

simulate() {  # simulate PROGRAM: the seeds, split among the cores
  local program=$1 cores pids=() core pid code=0
  cores=$(nproc)
  for ((core = 0; core < cores; core++)); do
    "$program" --seeds=$((seeds / cores)) --first-seed=$((1 + core * (seeds / cores))) &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || code=1; done
  return "$code"
}

in_time() { [ "$simulated_s" -le $((limit_s * seeds / 2000 + 1)) ]; }

setup_packages
setup_venvs
setup_build release
setup_build asan

start=$SECONDS
soak "simulation, $seeds seeds" simulate "$setup_root/build/bin/lockstep_sim"
simulated_s=$((SECONDS - start))
soak "the same in under $limit_s s for 2000" in_time
soak "simulation, $seeds seeds, address sanitizer" simulate "$setup_root/build/asan/bin/lockstep_sim"
soak "10,000 parked calls, and other long interop tests" \
  "$setup_root/build/peers/jax/bin/python" -m pytest -q -p no:cacheprovider -m soak \
  "$setup_root/tests"

[ "$failed" -eq 0 ]
