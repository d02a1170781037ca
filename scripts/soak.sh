#!/usr/bin/env bash
# The longer counts, too long for every change: 2,000 seeds of the simulation against the clock, the
# same under the sanitizers, hosts that are cut off, slow and stopped, 10,000 parked calls again and
# again, the tests that kill and stop stock processes several times over, a job on two hosts whose
# server is killed a hundred times, members of a rendezvous killed under load a thousand times,
# workers, consumers and dispatchers of the data service killed while epochs are read, 10,000 seeds
# of it simulated, nearly valid requests to a server that is killed in between, stock processes
# stopped and cut off for half a minute and idle for longer, other versions of JAX, `pip install .`,
# and the demo run by the wheel where Debian's libraries are not.
#
#   scripts/soak.sh [SEEDS]     default 2000; give more for a night
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

readonly SEEDS=${1:-2000}
readonly LIMIT_S=60  # of 2000 seeds, on two cores
readonly REPEATS=5
readonly RESTARTS=200
readonly KILLS=1000
readonly DATA_KILLS=300
readonly DATA_EPOCHS=40
readonly DATA_ELEMENTS=100000  # of each epoch
readonly CHURN_S=120
readonly RACES=1000000
readonly FUZZ_REQUESTS=10000000
failed=0

soak() {  # soak TEXT COMMAND...
  local text=$1 start=$SECONDS
  shift
  if "$@" </dev/null; then
    printf '  ok      %-56s%6d s\n' "$text" $((SECONDS - start))
  else
    printf '  FAILED  %-56s%6d s\n' "$text" $((SECONDS - start))
    failed=$((failed + 1))
  fi
}

simulate() {  # simulate PRESET-BINARY-FOLDER
  "$1/lockstep_sim" --seeds="$SEEDS" --jobs="$(nproc)"
}

simulate_native() {
  "$setup_root/build/bin/lockstep_sim" --native --seeds=$((50 * SEEDS)) --jobs="$(nproc)"
}

simulate_preemptions() {
  "$setup_root/build/bin/lockstep_sim" --preemption --seeds=$((10 * SEEDS)) --jobs="$(nproc)" &&
    "$setup_root/build/bin/lockstep_sim" --preemption --members=3000 --seeds=10 --jobs="$(nproc)"
}

simulate_in_time() {
  local start=$SECONDS
  simulate "$setup_root/build/bin" && [ $((SECONDS - start)) -le $((LIMIT_S * SEEDS / 2000 + 1)) ]
}

park_calls() {
  "$setup_root/build/release/tests/lockstep_net_test" --gtest_brief=1 \
    --gtest_filter='*TenThousand*' --gtest_repeat=20 --gtest_break_on_failure
}

lose_members() {
  local i
  for ((i = 0; i < REPEATS; i++)); do
    "$setup_root/build/peers/jax/bin/python" -m pytest -q -x -p no:cacheprovider \
      "$setup_root"/tests/interop/test_loss.py "$setup_root"/tests/interop/test_stopped.py || return
  done
}

outlive_servers() {
  LOCKSTEP_TEST_SERVER_KILLS=100 "$setup_root/build/peers/jax/bin/python" -m pytest -q -x \
    -p no:cacheprovider "$setup_root/tests/cluster/test_agents.py"
}

be_slow() {
  LOCKSTEP_TEST_LOAD_S=300 "$setup_root/build/peers/jax/bin/python" -m pytest -q -x \
    -p no:cacheprovider "$setup_root/tests/e2e/test_hosts.py" -k slow
}

simulate_hosts() {
  LOCKSTEP_HOST_SEEDS=$((10 * SEEDS)) "$setup_root/build/release/tests/hosts_simulation_test" \
    --gtest_filter=*WhoIsCalled*
}

simulate_agents() {
  LOCKSTEP_STOCK_SIMULATION_SEEDS=$((20 * SEEDS)) "$setup_root/build/release/tests/sim_stock_test" \
    --gtest_filter=*AnsweredOnce*
}

simulate_etcd() {
  LOCKSTEP_ETCD_SIMULATION_SEEDS=$((5 * SEEDS)) "$setup_root/build/release/tests/etcd_simulation_test" \
    --gtest_filter=*NothingAcknowledged*
}

simulate_a_million() { "$setup_root/build/bin/lockstep_sim" --large; }

look_for_a_minute() {
  LOCKSTEP_TEST_LOOK_SECONDS=20 "$setup_root/build/peers/jax/bin/python" -m pytest -q -x \
    -p no:cacheprovider "$setup_root/tests/e2e/test_looking.py"
}

wait_half_a_minute() {
  "$setup_root/build/peers/jax/bin/python" -m pytest -q -x -p no:cacheprovider -m soak \
    "$setup_root/tests/interop"
}

try_other_jax() {  # stock clients of other versions, on both servers
  local version tests="$setup_root/tests/interop"
  for version in "${SETUP_JAX_VERSIONS[@]}"; do
    "$setup_root/build/peers/jax-$version/bin/python" -m pytest -q -x -p no:cacheprovider \
      "$tests"/test_{alive,attempts,barriers,connect,jax,keys,loss,preemption,stopped}.py || return
  done
}

damage_the_state() {
  LOCKSTEP_DAMAGE_STEP=1 "$setup_root/build/release/tests/journal_damage_test" --gtest_brief=1
}

install_by_pip() {
  local venv
  venv=$(mktemp -d)
  /usr/bin/python3 -m venv "$venv" &&
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$setup_root" &&
    "$venv/bin/python" "$setup_root/tests/python/typed_program.py"
  local code=$?
  rm -rf "$venv"
  return $code
}

run_the_demo_from_the_wheel() {
  "$setup_root/scripts/wheel.sh" --demo
}

restart_the_server() {
  LOCKSTEP_RESTARTS=$RESTARTS "$setup_root/build/release/tests/durability_restart_test" \
    --gtest_brief=1
}

restart_durable_stores() {
  LOCKSTEP_RESTARTS=$RESTARTS "$setup_root/build/release/tests/durability_torch_store_restart_test" \
    --gtest_brief=1
}

connect_to_torchs_store() {
  LOCKSTEP_TORCH_CONNECTIONS=10000 "$setup_root/build/peers/jax/bin/python" -m pytest -q -s \
    -p no:cacheprovider "$setup_root/tests/interop/test_torch_bytes.py" -k thousands
}

kill_members_of_a_rendezvous() {
  LOCKSTEP_KILLS=$KILLS "$setup_root/build/release/tests/rendezvous_stress_test"
}

fuzz_and_restart() {
  LOCKSTEP_FUZZ_REQUESTS=$FUZZ_REQUESTS \
    "$setup_root/build/release/tests/durability_structured_fuzz_test" --gtest_brief=1 &&
    LOCKSTEP_FUZZ_EVENTS=$FUZZ_REQUESTS \
      "$setup_root/build/release/tests/durability_fuzz_restore_test" --gtest_brief=1
}

simulate_data() {
  "$setup_root/build/bin/lockstep_sim" --data --seeds=$((5 * SEEDS)) --jobs="$(nproc)"
}

kill_the_data_service() {  # its workers, its consumers and its dispatcher
  LOCKSTEP_KILLS=$DATA_KILLS LOCKSTEP_EPOCHS=$DATA_EPOCHS LOCKSTEP_ELEMENTS=$DATA_ELEMENTS \
    "$setup_root/build/release/tests/data_kills_test" --gtest_brief=1
}

change_workers_of_rounds() {
  LOCKSTEP_CHURN_S=$CHURN_S "$setup_root/build/peers/jax/bin/python" -m pytest -q -s \
    -p no:cacheprovider "$setup_root/tests/e2e/test_data_rounds.py"
}

race_aborts() {
  LOCKSTEP_ROUNDS=$RACES setarch "$(uname -m)" -R \
    "$setup_root/build/tsan/tests/rendezvous_liars_test" --gtest_brief=1 --gtest_filter='*Row27*'
}

setup_packages
setup_venvs
setup_jax_versions
setup_build release
setup_build asan
setup_build tsan

soak "simulation, $SEEDS seeds, in under $LIMIT_S s for 2000" simulate_in_time
soak "native clients and a server that dies, $((50 * SEEDS)) seeds" simulate_native
soak "preemptions: $((10 * SEEDS)) seeds, and ten of 3,000 members" simulate_preemptions
soak "simulation, address and undefined-behaviour sanitizers" simulate "$setup_root/build/asan/bin"
soak "simulation, thread sanitizer" simulate "$setup_root/build/tsan/bin"
soak "10,000 parked calls, 20 times" park_calls
soak "lost and stopped stock processes, $REPEATS times" lose_members
soak "stock processes stopped, cut off, and idle for 160 s" wait_half_a_minute
soak "stock JAX ${SETUP_JAX_VERSIONS[*]}" try_other_jax
soak "a job on two hosts, its server killed 100 times" outlive_servers
soak "servers with a state in etcd, $((5 * SEEDS)) seeds: nothing is lost, no read is stale" simulate_etcd
soak "agents of stock clients, $((20 * SEEDS)) seeds: each call is answered once" simulate_agents
soak "one job of 1,000,000 members" simulate_a_million
soak "hosts, $((10 * SEEDS)) seeds: who is called stopped has stopped" simulate_hosts
soak "hosts under load and stopped at random for five minutes" be_slow
soak "stock processes that wait in C for a minute, looked at" look_for_a_minute
soak "every byte of a state directory flipped and cut" damage_the_state
soak "pip install . into a fresh environment" install_by_pip
soak "the demo, from the wheel, without Debian's libraries" run_the_demo_from_the_wheel
soak "$RESTARTS times: the server killed under load and restarted" restart_the_server
soak "$RESTARTS times: likewise with torch's stores" restart_durable_stores
soak "10,000 connections to torch's store, released at once" connect_to_torchs_store
soak "$FUZZ_REQUESTS nearly valid requests, server killed in between" fuzz_and_restart
soak "$KILLS members of a rendezvous killed under load, twice" kill_members_of_a_rendezvous
soak "the data service: $((5 * SEEDS)) seeds" simulate_data
soak "data service, $DATA_KILLS kills in $DATA_EPOCHS epochs: none lost, none doubled" kill_the_data_service
soak "workers of four consumers in rounds come and go for $CHURN_S s" change_workers_of_rounds
soak "$RACES aborts beside sends and receives, thread sanitizer" race_aborts

[ "$failed" -eq 0 ]
