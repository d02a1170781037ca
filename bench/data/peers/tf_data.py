#!/usr/bin/env python3
"""tf.data in one process. Variant `batched`: batch before map, so that one gather serves a batch."""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import files
import meter

ROWS = {"windows": (files.tokens, meter.WINDOW_BATCH), "records": (files.records, meter.RECORD_BATCH),
        "arrays": (files.arrays, 1), "arrays-read": (files.arrays, 1)}
VARIANTS = ("one-by-one", "batched")


def pipeline(row, variant, folder):
    """The rows are a tensor in memory: tf.data has no random access to files."""
    make_rows, batch = ROWS[row]
    rows = tf.constant(make_rows(folder))
    indices = tf.data.Dataset.range(len(rows)).shuffle(len(rows), seed=meter.SEED).repeat()
    if batch == 1:
        return indices.map(lambda index: rows[index])
    if variant == "batched":
        return indices.batch(batch).map(lambda index: tf.gather(rows, index))
    return indices.map(lambda index: rows[index]).batch(batch)



def prefetched(dataset):
    return dataset.prefetch(tf.data.AUTOTUNE)


def main():
    options = meter.arguments(__doc__, tuple(ROWS), VARIANTS)
    touch = meter.touch_of(options.row)

    def make():
        dataset = pipeline(options.row, options.variant, options.data)
        return prefetched(dataset).as_numpy_iterator()
    meter.leave(meter.measure(make, ROWS[options.row][1], options, touch))


if __name__ == "__main__":
    main()
