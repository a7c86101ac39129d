"""Storages of a project's own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import IO, Any, ClassVar
from urllib.parse import urlsplit

from scrapy import Spider
from scrapy.extensions.feedexport import BlockingFeedStorage


class Bucket(BlockingFeedStorage):
    """Objects by key, as long as the process lives; fails as often as it is told to."""

    objects: ClassVar[dict[str, bytes]] = {}
    stored: ClassVar[list[str]] = []
    failures: ClassVar[int] = 0

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        self.key = urlsplit(uri).path

    def open(self, spider: Spider) -> IO[bytes]:
        return tempfile.TemporaryFile()

    def _store_in_thread(self, file: IO[bytes]) -> None:
        file.seek(0)
        data = file.read()
        file.close()
        if Bucket.failures:
            Bucket.failures -= 1
            raise ConnectionError("the bucket is away")
        Bucket.objects[self.key] = data
        Bucket.stored.append(self.key)


class Folder:
    """A directory as a storage that says nothing of files: `folder://` and a path."""

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        self.path = Path(urlsplit(uri).path)

    def open(self, spider: Spider) -> IO[bytes]:
        return self.path.with_suffix(".part").open("w+b")

    def store(self, file: IO[bytes]) -> None:
        file.close()
        self.path.with_suffix(".part").replace(self.path)
