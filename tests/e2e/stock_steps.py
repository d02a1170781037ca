"""What stock JAX processes do in tests of what they outlive."""

# Each step: a counter that must go up by one a process, a value from the other process, a barrier.
STEPS = """
import jax, os, sys
print('up', os.getpid(), flush=True)
jax.distributed.initialize(heartbeat_timeout_seconds=10)
client = jax._src.distributed.global_state.client
me, size = jax.process_index(), jax.process_count()
for step in range(int(sys.argv[1])):
    client.key_value_increment('count', 1)
    client.key_value_set(f'step/{step}/{me}', str(me + step))
    other = client.blocking_key_value_get(f'step/{step}/{(me + 1) % size}', 120_000)
    assert int(other) == (me + 1) % size + step, other
    client.wait_at_barrier(f'step-{step}', 120_000)
    if me == 0: print('step', step, flush=True)
count = client.key_value_increment('count', 0)
client.wait_at_barrier('counted', 120_000)
print('counted', count, flush=True)
"""
