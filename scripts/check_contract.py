#!/usr/bin/python3
"""Checks that no number in the contract, proto/lockstep, has changed its meaning.

Structs, codec and protobuf's classes are all made of the .proto, so no test of theirs sees that a
field's number or type has changed. proto/lockstep/numbers.txt keeps what was promised: each field,
value of an enum and kind of request. Programs and state directories of every version hold to it.

With --write, adds what is new. It removes and changes nothing: whoever retires a number takes its
line out by hand, and reserves the number in the .proto.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

import generate_messages

ROOT = pathlib.Path(__file__).resolve().parent.parent
NUMBERS = ROOT / "proto" / "lockstep" / "numbers.txt"
LINK = ROOT / "docs" / "formats" / "link.md"
# | 20 | `Barrier` | ...
KIND_ROW = re.compile(r"^\| (\d+) \| `(\w+)`", re.MULTILINE)
F = descriptor_pb2.FieldDescriptorProto


def describe(proto):
    """The contract in the folder `proto`."""
    files = sorted(path.relative_to(proto).as_posix()
                   for path in (proto / "lockstep").rglob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "set"
        subprocess.run(["protoc", "-I", proto, "--include_imports", f"--descriptor_set_out={out}",
                        *files], check=True)
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


def type_of(field):
    """"repeated int32", "optional .lockstep.v1.Label": what the bytes depend on."""
    name = field.type_name or F.Type.Name(field.type).removeprefix("TYPE_").lower()
    if field.label == F.LABEL_REPEATED:
        return f"repeated {name}"
    return f"optional {name}" if field.proto3_optional else name


def kinds_of(descriptors):
    """The names of requests by their kinds."""
    options = generate_messages.Options(descriptors.file)
    return {options.of(message, "request").kind: message.name
            for file in descriptors.file if file.package in generate_messages.PACKAGES
            for message in file.message_type if options.has(message, "request")}


def promises(descriptors):
    """What the contract promises, a line each: what has a number, and the number with its meaning."""
    for file in descriptors.file:
        if file.package not in generate_messages.PACKAGES:
            continue
        for message in file.message_type:
            for field in message.field:
                yield (f"{file.package}.{message.name} {field.number}",
                       f"{field.name} {type_of(field)}")
        for enum in file.enum_type:
            for value in enum.value:
                yield f"{file.package}.{enum.name} {value.number}", value.name
    for kind, name in kinds_of(descriptors).items():
        yield f"kind {kind}", name


def compare(kept, now):
    """What is wrong, a sentence each. Both by what has a number."""
    for number, meaning in kept.items():
        if number not in now:
            yield f"{number} was '{meaning}' and is gone"
        elif now[number] != meaning:
            yield f"{number} was '{meaning}' and is '{now[number]}'"
    for number in now.keys() - kept.keys():
        yield f"{number} is new: scripts/check_contract.py --write"


def compare_with_page(kinds, page):
    """The same of the table of requests in docs/formats/link.md."""
    told = {int(kind): name for kind, name in KIND_ROW.findall(page)}
    for kind in sorted(kinds.keys() | told.keys()):
        if kinds.get(kind) != told.get(kind):
            yield (f"docs/formats/link.md: kind {kind} is {told.get(kind, 'not there')}, in the "
                   f"contract {kinds.get(kind, 'not there')}")


def read(text):
    return dict(line.split(": ", 1) for line in text.splitlines() if line)


def main():
    descriptors = describe(ROOT / "proto")
    kept = read(NUMBERS.read_text()) if NUMBERS.exists() else {}
    now = dict(promises(descriptors))
    if "--write" in sys.argv[1:]:
        kept = {number: kept.get(number, meaning) for number, meaning in (now | kept).items()}
        NUMBERS.write_text("".join(f"{number}: {kept[number]}\n" for number in sorted(kept)))
    wrong = [*compare(kept, now), *compare_with_page(kinds_of(descriptors), LINK.read_text())]
    for sentence in sorted(wrong):
        print(sentence)
    print(f"{len(now)} numbers of the contract, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
