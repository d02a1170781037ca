#!/usr/bin/env bash
# The main job on real data: four stock JAX processes train on handwritten digits through a Lockstep
# server. Then one of them is killed, and all others learn which one. Then the job runs again, with
# four stock PyTorch processes beside it on the same server. Then the host of one will be taken
# away: all save at one step, and continue from there. Then the server itself is killed, and four
# members that know Lockstep continue. Then the digits come from two data workers, one of which is
# killed. Last, the server of four stock JAX processes and four stock PyTorch processes is killed
# twice; agents on their host keep them alive. It needs only Debian 12 with its package mirrors. Raw
# logs: build/demo/.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

started=$SECONDS
setup_say "Preparing (existing parts are kept):"
setup_packages
setup_venvs
setup_torch
setup_build release lockstep_python
setup_say "  ready after $((SECONDS - started)) s"
setup_say ""
exec "$setup_root/build/peers/jax/bin/python" "$setup_root/scripts/demo.py" "$@"
