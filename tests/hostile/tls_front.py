"""TLS in front of a plain server on 127.0.0.1, with a certificate made for it, which nobody knows."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.tcp_proxy import end

ADDRESS = "127.0.0.1"


class TlsFront:
    """Listens on `port` in a thread of its own while the `with` block runs.

    `certificate` is the PEM file that a client has to trust, `asked` what clients have sent, decrypted, and
    `connections` how many there were.
    """

    def __init__(self, server_port: int, directory: Path) -> None:
        self.port = 0
        self.asked = bytearray()
        self.connections = 0
        self.certificate = directory / "front.pem"
        self._server_port = server_port
        key = directory / "front.key"
        make_certificate(self.certificate, key)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certificate, key)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._writers: list[asyncio.StreamWriter] = []

    def __enter__(self) -> TlsFront:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, ADDRESS, 0, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        await end(asyncio.all_tasks() - {asyncio.current_task()}, self._writers)

    async def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(to_client)
        server, to_server = await asyncio.open_connection(ADDRESS, self._server_port)
        self._writers.append(to_server)
        await asyncio.gather(
            self._pass_on(client, to_server, self.asked), self._pass_on(server, to_client, bytearray())
        )

    @staticmethod
    async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, copy: bytearray) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                copy += data
                writer.write(data)
                await writer.drain()
        writer.close()


def make_certificate(certificate: Path, key: Path) -> None:
    """Write a key, and a certificate for this machine's loopback address that is signed with it."""
    secret = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a stand-in")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(name, name, secret.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(ADDRESS))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(secret, hashes.SHA256())
    )
    certificate.write_bytes(signed.public_bytes(Encoding.PEM))
    key.write_bytes(secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
