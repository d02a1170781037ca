"""A TCP proxy that does what networks do: lose every packet for a while, or cut messages up."""

import socket
import threading


class Proxy:
    """Forwards connections to `address`, in pieces of at most `piece_bytes`.

    While held, nothing passes and nothing breaks.
    """

    def __init__(self, address, piece_bytes=65536):
        self._piece_bytes = piece_bytes
        host, port = address.rsplit(":", 1)
        self._target = (host, int(port))
        self._flowing = threading.Event()
        self._flowing.set()
        self._sockets = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self):
        self._flowing.clear()

    def release(self):
        self._flowing.set()

    def close(self):
        self.release()
        for one in [self._listener, *self._sockets]:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # It had ended by itself.
            one.close()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source, sink):
        try:
            while data := source.recv(65536):
                self._flowing.wait()
                for start in range(0, len(data), self._piece_bytes):
                    sink.sendall(data[start:start + self._piece_bytes])
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # Either side has gone; its peer is told by the shutdown of close().
