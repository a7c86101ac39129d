"""Feeds of several formats, and the items that are found in them when they are read back."""

from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

Read = Callable[[bytes], list[int]]


def ids_of_jsonl(data: bytes) -> list[int]:
    assert data.endswith(b"\n") or not data
    return [json.loads(line)["id"] for line in data.splitlines()]


def ids_of_csv(data: bytes) -> list[int]:
    header, *rows = csv.reader(io.StringIO(data.decode(), newline=""))
    assert header == ["id", "name"]
    return [int(row[0]) for row in rows]


def ids_of_json(data: bytes) -> list[int]:
    return [item["id"] for item in json.loads(data)]


def ids_of_xml(data: bytes) -> list[int]:
    return [int(item.findtext("id") or "") for item in ElementTree.fromstring(data)]


def ids_of_gzip(data: bytes) -> list[int]:
    return ids_of_jsonl(gzip.decompress(data))


def ids_of_pickles(data: bytes) -> list[int]:
    file, found = io.BytesIO(data), []
    while file.tell() < len(data):
        found.append(pickle.load(file)["id"])
    return found


GZIP = ["scrapy.extensions.postprocessing.GzipPlugin"]
FORMATS: dict[str, tuple[dict[str, Any], Read]] = {
    "jsonl": ({"format": "jsonlines"}, ids_of_jsonl),
    "csv": ({"format": "csv"}, ids_of_csv),
    "json": ({"format": "json"}, ids_of_json),
    "xml": ({"format": "xml"}, ids_of_xml),
    "pickle": ({"format": "pickle"}, ids_of_pickles),
    "gz": ({"format": "jsonlines", "postprocessing": GZIP}, ids_of_gzip),
}
