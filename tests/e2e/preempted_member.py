"""A member that works in steps, saves when the job is preempted, and ends with CODE, or is
killed when all have saved.

Usage: preempted_member.py FOLDER STEPS CODE|killed. Started again with the same folder it goes on.
"""

import itertools
import os
import pathlib
import signal
import sys
import time

import lockstep


def main():
    folder, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    checkpoint = folder / f"member-{os.environ['LOCKSTEP_INDEX']}"
    first = int(checkpoint.read_text()) + 1 if checkpoint.exists() else 0
    with lockstep.join(timeout=60) as me:
        with me.preemption(last_step=steps - 1) as preemption:
            print(f"begins at {first}", flush=True)
            for step in itertools.takewhile(lambda step: step < steps, itertools.count(first)):
                if step == first + 3:
                    print("works", flush=True)
                time.sleep(0.002)  # a step's work
                if preemption.reached(step):
                    checkpoint.write_text(str(step))
                    preemption.saved(step, checkpoint)
                    print(f"saved at {step}", flush=True)
                    if not preemption.notice().withdrawn:
                        if sys.argv[3] == "killed":
                            while preemption.notice().open:
                                time.sleep(0.01)
                            os.kill(os.getpid(), signal.SIGKILL)
                        me.close()
                        sys.exit(int(sys.argv[3]))
    print("done", flush=True)


main()
