"""The coordination service of the jaxlib that runs this file: prints its port, ends with its stdin.

Usage: older_server.py SIZE OPTIONS-AS-JSON
"""

import json
import sys

from jaxlib import _jax

from listening import listening_port


def main():
    size, options = int(sys.argv[1]), json.loads(sys.argv[2])
    service = _jax.get_distributed_runtime_service("127.0.0.1:0", size, **options)
    print(listening_port(), flush=True)
    sys.stdin.read()
    service.shutdown()


if __name__ == "__main__":
    main()
