"""Works in steps that all members make together; goes on when the server dies and comes back.

    lockstep run -n 4 -- python examples/steps_member.py [STEPS]
"""

import sys
import time

import lockstep

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 100

with lockstep.join() as me:
    total, longest = 0, 0.0
    for step in range(STEPS):
        began = time.monotonic()
        parts = me.gather("step", str(step * (me.member + 1)), timeout=60)  # a barrier with a value
        longest = max(longest, time.monotonic() - began)
        total += sum(int(part) for part in parts)
        me.progress(step, "gathering")
        if step % 20 == 0:
            print(f"step {step}/{STEPS}", flush=True)
        time.sleep(0.01)  # where a real program would compute
    writes = me.kv.increment("finished")
    print(f"final total {total}, the longest step took {longest * 1000:.0f} ms, finished as number {writes}")
