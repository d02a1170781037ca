#!/usr/bin/env python3
"""Lockstep's data service. Variants: the number of workers; `local`: in this process, by `local()`.

Orders: first come, as the peers' (elements come as workers have them); `rounds` in rounds.
"""

import time

import cluster
import files
import meter
from lockstep import data

VARIANTS = ("w2", "w1", "local")
ROWS = ("windows", "records", "arrays", "arrays-read", "range", "rounds")


def dataset(row, folder):
    """Endless; and how many elements a batch has."""
    if row == "windows":
        windows = data.windows(str(folder / files.TOKENS), "int32", meter.WINDOW_TOKENS)
        return windows.shuffle(meter.SEED).repeat().batch(meter.WINDOW_BATCH), meter.WINDOW_BATCH
    if row == "records":
        records = data.records(str(folder / files.RECORDS), meter.RECORD_BYTES)
        return records.shuffle(meter.SEED).repeat().batch(meter.RECORD_BATCH), meter.RECORD_BATCH
    arrays = data.windows(str(folder / files.TOKENS), "int32", meter.ARRAY_BYTES // 4)
    return arrays.shuffle(meter.SEED).repeat(), 1


def read_numbers(options):
    begin = time.perf_counter()
    service = cluster.Service(2)

    def make(count):
        numbers = data.range(count).batch(meter.RANGE_BATCH)
        return numbers.read(service.address, order="first_come")
    return meter.numbers(make, service, options, begin, options.elements)


def read_rounds(options):
    def make(address):
        numbers = data.range(options.elements).repeat().batch(meter.RANGE_BATCH)
        return numbers.read(address, name="rounds", order="rounds", consumer=options.consumer,
                            consumers=meter.CONSUMERS)
    if options.service:
        meter.read_as_other(lambda: make(options.service))
        return None
    begin = time.perf_counter()
    service = cluster.Service(2)
    return meter.rounds(lambda: make(service.address), service, options, begin)


def read_rows(options):
    rows, batch = dataset(options.row, options.data.resolve())
    if options.variant == "local":
        make = rows.local
    else:
        service = cluster.Service(int(options.variant[1:]))
        service.wait_for_workers()

        def make():
            return rows.read(service.address, order="first_come")
    return meter.measure(make, batch, options, meter.touch_of(options.row))


def main():
    options = meter.arguments(__doc__, ROWS, VARIANTS)
    by_row = {"range": read_numbers, "rounds": read_rounds}
    meter.leave(by_row.get(options.row, read_rows)(options))


if __name__ == "__main__":
    main()
