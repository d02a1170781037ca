#!/usr/bin/python3
"""Holds the `lockstep` program to carrying neither gRPC nor libprotobuf: linkage_test.py PROGRAM"""

import re
import subprocess
import sys


def main():
    listing = subprocess.run(["ldd", sys.argv[1]], capture_output=True, text=True, check=True).stdout
    libraries = [line.split()[0] for line in listing.splitlines() if line.strip()]
    if not any(name.startswith("libc.so") for name in libraries):
        print(f"ldd does not tell what {sys.argv[1]} needs:\n{listing}")
        return 1
    banned = [name for name in libraries if re.search(r"grpc|protobuf|upb", name)]
    if banned:
        print(f"{sys.argv[1]} must not need {', '.join(banned)}: it is the client side")
        return 1
    print(f"{len(libraries)} libraries, none of gRPC or protobuf")
    return 0


if __name__ == "__main__":
    sys.exit(main())
