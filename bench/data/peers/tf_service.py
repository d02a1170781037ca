#!/usr/bin/env python3
"""tf.data service: a dispatcher and workers, each in a process of its own, uncompressed (best on one
host). Variants: how many workers; `batched`: batch before map.
"""

import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tf_data  # first: it silences what TensorFlow says

import meter
import tensorflow as tf

VARIANTS = ("w2", "w2-batched", "w1")


class Service:
    """The processes; they end with this one's session."""

    def __init__(self, workers):
        self.dispatcher = self.start("dispatcher", str(workers))
        self.address = self.dispatcher.stdout.readline().strip()
        if not self.address:
            raise RuntimeError("the dispatcher did not start")
        self.workers = [self.start("worker", self.address) for _ in range(workers)]

    @staticmethod
    def start(what, argument):
        return subprocess.Popen([sys.executable, __file__, "serve", what, argument],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                stderr=subprocess.DEVNULL)

    def wait_for_workers(self):
        """Until the dispatcher knows all of them."""
        if not self.dispatcher.stdout.readline():
            raise RuntimeError("the dispatcher ended")

    def kill_worker(self):
        self.workers[0].kill()
        self.workers[0].wait()


def serve(what, argument):
    """The dispatcher is told how many workers there will be, a worker where the dispatcher is."""
    service = tf.data.experimental.service
    if what == "dispatcher":
        server = service.DispatchServer(service.DispatcherConfig(port=0))
        print(server.target.removeprefix("grpc://"), flush=True)
        while server._num_workers() < int(argument):  # as its own tests do
            time.sleep(0.001)
        print("complete", flush=True)
    else:
        server = service.WorkerServer(service.WorkerConfig(dispatcher_address=argument))
    sys.stdin.read()  # until who has started it ends


def distributed(dataset, address, mode, **more):
    return dataset.apply(tf.data.experimental.service.distribute(
        processing_mode=mode, service=f"grpc://{address}", compression=None, **more))


def read_numbers(options):
    """First come, first served. Each number takes a worker a call of its own (GetSplit): so the epoch
    in which a worker is killed is short.
    """
    begin = time.perf_counter()
    service = Service(2)

    def make(count):
        dataset = tf.data.Dataset.range(count).batch(meter.RANGE_BATCH)
        return distributed(dataset, service.address, "distributed_epoch").as_numpy_iterator()
    return meter.numbers(make, service, options, begin, options.elements // 200)


def read_rounds(options):
    """Two consumers that read in step."""
    sharding = tf.data.experimental.service.ShardingPolicy.OFF

    def make(address):
        dataset = tf.data.Dataset.range(options.elements).repeat().batch(meter.RANGE_BATCH)
        return distributed(dataset, address, sharding, job_name="rounds",
                           consumer_index=options.consumer,
                           num_consumers=meter.CONSUMERS).as_numpy_iterator()
    if options.service:
        meter.read_as_other(lambda: make(options.service))
        return None
    begin = time.perf_counter()
    service = Service(2)
    return meter.rounds(lambda: make(service.address), service, options, begin)


def read_rows(options):
    """OFF: each worker shuffles all of it, and for ever; so no shard ends before the others."""
    workers, _, batched = options.variant.partition("-")
    service = Service(int(workers[1:]))
    service.wait_for_workers()
    sharding = tf.data.experimental.service.ShardingPolicy.OFF

    def make():
        dataset = tf_data.pipeline(options.row, batched or "one-by-one", options.data)
        dataset = distributed(tf_data.prefetched(dataset), service.address, sharding)
        return dataset.as_numpy_iterator()
    return meter.measure(make, tf_data.ROWS[options.row][1], options,
                         meter.touch_of(options.row))


def main():
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
        return
    options = meter.arguments(__doc__, (*tf_data.ROWS, "range", "rounds"), VARIANTS)
    by_row = {"range": read_numbers, "rounds": read_rounds}
    meter.leave(by_row.get(options.row, read_rows)(options))


if __name__ == "__main__":
    main()
