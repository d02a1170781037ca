"""A stock TensorFlow worker whose coordination leader is somebody else: registers, waits for all,
shares a key, looks at the others' states; worker 0 then reports an error, and all say what they see.

Usage: tensorflow_worker.py LEADER INDEX OWN_ADDRESS...

Prints one line per step: `devices [...]`, `key ...`, `reported`, `error ...`.
"""

import os
import socket
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import tensorflow as tf  # noqa: E402 (the environment comes first)
from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2  # noqa: E402
from tensorflow.core.protobuf import tensorflow_server_pb2  # noqa: E402
from tensorflow.python.eager import context  # noqa: E402

LIMIT_S = 60


def say(*words):
    print(*words, flush=True)


def join(leader, index, addresses):
    ctx = context.context()
    ctx.configure_coordination_service(
        service_type="standalone", service_leader="/job:coordinator/replica:0/task:0",
        coordinated_jobs=[coordination_config_pb2.CoordinatedJob(name="worker",
                                                                 num_tasks=len(addresses))])
    cluster = tf.train.ClusterSpec({"worker": addresses, "coordinator": [leader]})
    ctx.enable_collective_ops(tensorflow_server_pb2.ServerDef(
        cluster=cluster.as_cluster_def(), job_name="worker", task_index=index, protocol="grpc",
        default_session_config=ctx.config))
    ctx.ensure_initialized()
    return ctx


def own_error(ctx):
    """What a call says once this worker knows that a peer has failed."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        try:
            ctx.get_config_key_value("ask")
        except tf.errors.OpError as error:
            if type(error) is not tf.errors.NotFoundError:
                return f"{type(error).__name__}: {error.message}"
    return "none"


def main():
    leader, index, addresses = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    ctx = join(leader, index, addresses)
    say("devices", sorted(device.name for device in tf.config.list_logical_devices("CPU")))
    ctx.set_config_key_value(f"hello/{index}", f"from {index}")
    say("key", ctx.get_config_key_value(f"hello/{(index + 1) % len(addresses)}"))
    say("states", [state is None for state in ctx.get_task_states([("worker", len(addresses))])])
    if index == 0:
        ctx.report_error_to_cluster(13, "worker 0 cannot go on")
        say("reported")
    say("end")
    sys.stdin.readline()
    os._exit(0)


if __name__ == "__main__":
    main()
