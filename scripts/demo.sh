#!/usr/bin/env bash
# The main job on real data: four stock JAX processes train on handwritten digits through a Lockstep
# server; then one of them is killed, and everybody is told who it was; then the job runs again, with
# four stock PyTorch processes beside it on the same server; then the host of one is about to be taken
# away, all save at one step, and go on from there; then the server itself is killed, and four members
# that know Lockstep go on; then the digits come from two data workers, of which one is killed.
# Needs nothing but a Debian 12 with its package mirrors. Raw logs: build/demo/.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

started=$SECONDS
setup_say "Getting ready (what is there already is left alone):"
setup_packages
setup_venvs
setup_torch
setup_build release lockstep_python
setup_say "  ready after $((SECONDS - started)) s"
setup_say ""
exec "$setup_root/build/peers/jax/bin/python" "$setup_root/scripts/demo.py" "$@"
