"""A stock TensorFlow worker whose coordination leader is somebody else: registers, waits for all,
adds a number up over all, shares a key, looks at the others' states; worker 0 then reports an error, and
each says what it gets instead of a barrier.

Usage: tensorflow_worker.py LEADER INDEX WORKER_ADDRESS...

Prints one line per step: `sum ...`, `key ...`, `healthy ...`, `reported`, `error ...`, `end`.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import tensorflow as tf  # noqa: E402 (the environment comes first)
from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2  # noqa: E402
from tensorflow.core.protobuf import tensorflow_server_pb2  # noqa: E402
from tensorflow.python.eager import context  # noqa: E402
from tensorflow.python.ops import collective_ops  # noqa: E402


def say(*words):
    print(*words, flush=True)


def join(leader, index, addresses):
    ctx = context.context()
    ctx.configure_coordination_service(
        service_type="standalone", service_leader="/job:coordinator/replica:0/task:0",
        coordinated_jobs=[coordination_config_pb2.CoordinatedJob(name="worker",
                                                                 num_tasks=len(addresses))])
    ctx.configure_collective_ops(collective_leader="/job:worker/replica:0/task:0")
    cluster = tf.train.ClusterSpec({"worker": addresses, "coordinator": [leader]})
    ctx.enable_collective_ops(tensorflow_server_pb2.ServerDef(
        cluster=cluster.as_cluster_def(), job_name="worker", task_index=index, protocol="grpc",
        default_session_config=ctx.config))
    ctx.ensure_initialized()
    return ctx


def sum_over_all(value, size):
    """Needs every worker's devices, which each has from waiting for all."""
    with tf.device("/device:CPU:0"):
        return collective_ops.all_reduce(tf.constant([value]), size, 1, 1, "Add", "Id").numpy()[0]


def main():
    leader, index, addresses = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    size = len(addresses)
    ctx = join(leader, index, addresses)
    say("sum", sum_over_all(10.0 ** index, size))
    ctx.set_config_key_value(f"hello/{index}", f"from {index}")
    say("key", ctx.get_config_key_value(f"hello/{(index + 1) % size}"))
    ctx.wait_at_barrier("all have read", 60_000)
    say("healthy", all(state is None for state in ctx.get_task_states([("worker", size)])))
    ctx.wait_at_barrier("all have looked", 60_000)
    if index == 0:
        ctx.report_error_to_cluster(13, "worker 0 cannot go on")
        say("reported")
    try:
        ctx.wait_at_barrier("never", 60_000)
    except tf.errors.OpError as error:
        say("error", type(error).__name__, error.message.replace("\n", " "))
    say("end")
    os._exit(0)


if __name__ == "__main__":
    main()
