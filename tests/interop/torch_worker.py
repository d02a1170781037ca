"""A stock torch.distributed process: joins, reduces, meets the others, leaves. Prints what came of it.

All that it knows is in its environment: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT,
TORCHELASTIC_USE_AGENT_STORE.
"""

import datetime
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=float(sys.argv[1])))
tensor = torch.full((4,), float(dist.get_rank() + 1))
dist.all_reduce(tensor)
dist.barrier()
group = dist.new_group([0, 1])
if dist.get_rank() < 2:
    dist.all_reduce(tensor, group=group)
everybody = [None] * dist.get_world_size()
dist.all_gather_object(everybody, dist.get_rank())
dist.barrier()
dist.destroy_process_group()
print(tensor.tolist()[0], everybody, flush=True)
