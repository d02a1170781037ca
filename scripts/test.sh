#!/usr/bin/env bash
# Builds and tests everything: lints, C++ tests (plain, with address and undefined-behaviour
# sanitizers, with the thread sanitizer), a share of the simulation, the Python package beside jax, torch
# and tensorflow, its wheel without Debian's libraries, stock jaxlib clients, whole processes. Ends with
# one line, `N passed, N failed`, and fails when a test failed.
#
#   scripts/test.sh            all of it
#   scripts/test.sh STAGE      one stage: lint python interop e2e cluster unit sim threads tidy wheel
#                              tsan asan
#   scripts/test.sh NAME       what has NAME in its name, without the sanitizers
#
# LOCKSTEP_TEST_MINUTES=N: no sanitizer's stage begins later than that; a stage left out is named.
# Longer counts: scripts/soak.sh. Logs and results: build/test-logs/.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

setup_packages
setup_venvs
setup_etcd
exec /usr/bin/python3 "$setup_root/scripts/run_tests.py" "$@"
