"""Joins a job, waits for the others, shares a value. Start it as often as the job has members:

    lockstep run -n 4 -- python examples/hello_member.py

or on any hosts, with LOCKSTEP_COORDINATOR, LOCKSTEP_JOB, LOCKSTEP_INDEX and LOCKSTEP_SIZE set.
"""

import os

import lockstep

with lockstep.join() as me:                                    # who and where: from LOCKSTEP_*
    me.barrier("ready", timeout=60)                            # all are here, or an error names who is not
    if me.member == 0:
        me.kv.set("config/lr", "0.1")
    lr = me.kv.wait("config/lr", timeout=60).decode()
    pids = me.gather("pid", str(os.getpid()), timeout=60)      # what each brought, by member
    print(f"{me.name} of {me.size}: lr {lr}, pids {[int(pid) for pid in pids]}")
