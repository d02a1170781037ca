"""Where this process listens, for services that know their port but do not tell it."""

import os


def listening_port():
    ours = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
            if os.path.islink(f"/proc/self/fd/{fd}")}
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        for line in open(table, encoding="ascii").read().splitlines()[1:]:
            fields = line.split()
            local, state, inode = fields[1], fields[3], fields[9]
            if state == "0A" and f"socket:[{inode}]" in ours:
                return int(local.rsplit(":", 1)[1], 16)
    raise RuntimeError("this process listens nowhere")
