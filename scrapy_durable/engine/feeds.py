"""Scrapy's feeds, with the end of each and what they are made of in reach, and its XML, well formed."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from typing import IO, TYPE_CHECKING, Any, cast
from xml.sax.xmlreader import AttributesImpl

from scrapy.exporters import (
    BaseItemExporter,
    CsvItemExporter,
    JsonItemExporter,
    JsonLinesItemExporter,
    MarshalItemExporter,
    PickleItemExporter,
    PprintItemExporter,
    XmlItemExporter,
)
from scrapy.extensions import feedexport
from scrapy.extensions.feedexport import FeedExporter, FeedSlot
from scrapy.extensions.postprocessing import PostProcessingManager
from scrapy.utils.misc import load_object

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.extensions.feedexport import FeedStorageProtocol


class OpenFeeds(FeedExporter):
    """`_close_slot` writes the end of a feed, and stores it; whatever an exporter or a storage raises ends there."""

    def failed_to_close(self, error: Exception) -> None:
        """A feed could not be ended or stored."""

    async def _close_slot(self, slot: FeedSlot, spider: Spider) -> None:
        try:
            await super()._close_slot(slot, spider)
        except Exception as error:  # noqa: BLE001 (see above)
            self.failed_to_close(error)


class FeedParts(FeedExporter):
    """`FeedExporter`, and what it makes of each feed one by one: its address, its storage, its slot.

    `_get_uri_params` makes the values that fill in an address, `_get_storage` picks the storage by the address' scheme.
    """

    worker = ""
    """What `%(worker)s` stands for."""

    def address(self, template: str, options: Mapping[str, Any], **fixed: Any) -> str:
        """The feed's address, with `fixed` in place of the values of that name that Scrapy would take.

        The project's own `uri_params` is called with those. Raises whatever it raises, and `KeyError` or `ValueError`
        for a template that cannot be filled in.
        """
        function = self._with(fixed, options["uri_params"])
        return _fill_in(template, self._get_uri_params(cast("Spider", self.crawler.spider), function))

    def storage(self, uri: str, options: dict[str, Any]) -> FeedStorageProtocol:
        """A storage of Scrapy's or the project's own."""
        return self._get_storage(uri, options)

    def slot(self, template: str, options: dict[str, Any], uri: str, batch_id: int) -> Slot:
        """What writes one file; nothing is opened yet."""
        return Slot(
            storage=self.storage(uri, options),
            uri=uri,
            format=options["format"],
            store_empty=options["store_empty"],
            batch_id=batch_id,
            uri_template=template,
            filter=self.filters[template],
            feed_options=options,
            spider=cast("Spider", self.crawler.spider),
            exporters=self.exporters,
            settings=self.settings,
            crawler=self.crawler,
        )

    def _get_uri_params(self, spider: Spider, uri_params_function: Any, slot: Any = None) -> dict[str, Any]:
        return super()._get_uri_params(spider, self._with({}, uri_params_function), slot)

    def _with(self, fixed: Mapping[str, Any], function: Any) -> Callable[[dict[str, Any], Spider], Any]:
        """The project's function, called with these values; `fixed` win over those that were there before."""
        own = load_object(function) if function else None

        def params_with(params: dict[str, Any], spider: Spider) -> Any:
            params.update({"worker": self.worker, **fixed})
            return own(params, spider) if own is not None else params

        return params_with


class Slot(FeedSlot):
    """The file and the exporter of one feed, or of one of its batches. An item is in it whole or not at all.

    What one of Scrapy's exporters writes, or one that derives from it, gathers in `sink` first; others get the file
    itself. `_get_exporter` builds the exporter; `start_exporting` opens the storage, and builds it.
    """

    sink: Sink | None = None
    begins_with = b""
    """What the file begins with already: a CSV header that is there is not written again."""
    before = b""
    """What is written before the first item."""

    def open_on(self, file: Any) -> Sink:
        """Begin, on that file instead of one that the storage opens; returns where what is written gathers, if it does
        (`writes_lines`).
        """
        storage, self.storage = self.storage, _Opened(file)
        try:
            self.start_exporting()
        finally:
            self.storage = storage
        return cast("Sink", self.sink)

    def put(self, item: Any) -> None:
        """Write an item. Raises whatever the exporter raises; then nothing of it is there, if it has a sink."""
        exporter = cast("BaseItemExporter", self.exporter)
        if self.sink is None:
            exporter.export_item(item)
            return
        if self.before:
            self.sink.write(self.before)
            self.before = b""
        self._put_header(item)
        mark = self.sink.mark()
        try:
            exporter.export_item(item)
        except BaseException:
            self.sink.cut(mark)
            raise

    def flush(self) -> None:
        """Hand the file what has gathered."""
        if self.sink is not None and (data := self.sink.getvalue()):
            self.sink.cut(0)
            cast("IO[bytes]", self.file).write(data)

    def end(self) -> Any:
        """Write the end; returns the file that the storage takes, which is still open."""
        self.finish_exporting()
        self.flush()
        if isinstance(self.file, PostProcessingManager):
            self.file.close()
            return self.file.file
        return self.file

    @property
    def columns(self) -> list[str] | dict[str, str] | None:
        """The columns of CSV once there is a header; None before, and for what has none."""
        exporter = self.exporter
        if not isinstance(exporter, CsvItemExporter) or exporter._headers_not_written:
            return None
        fields = exporter.fields_to_export
        if fields is None:
            return []
        return dict(fields) if isinstance(fields, Mapping) else list(fields)

    @columns.setter
    def columns(self, columns: list[str] | dict[str, str]) -> None:
        """The header is there already."""
        exporter = cast("CsvItemExporter", self.exporter)
        exporter._headers_not_written = False
        exporter._autodetected_fields = exporter.fields_to_export is None and bool(columns)
        exporter.fields_to_export = columns or None

    @property
    def line_end(self) -> bytes:
        """What a line ends with, in bytes; nothing where that is not known."""
        exporter = cast("BaseItemExporter", self.exporter)
        if isinstance(exporter, LineExporter):
            return exporter.line_end
        encoding = exporter.encoding or "utf-8"
        if "\n".encode(encoding) != b"\n":
            return b""
        if isinstance(exporter, CsvItemExporter):
            return exporter.csv_writer.dialect.lineterminator.encode(encoding)
        return b"\n"

    def why_not_behind(self, is_ended: bool) -> str:
        """What speaks against going on behind what somebody else has left, which `begins_with` so; nothing, when that
        is fine. `is_ended`: its last line is whole.
        """
        exporter = self.exporter
        if not isinstance(exporter, LineExporter) or not exporter.header:
            return ""
        if not self.begins_with.startswith(exporter.header):
            return "it has other columns already"
        return "" if is_ended else "its last line is cut short"

    def _put_header(self, item: Any) -> None:
        exporter, sink = self.exporter, self.sink
        if sink is None or not isinstance(exporter, CsvItemExporter) or not exporter._headers_not_written:
            return
        mark, fields = sink.mark(), exporter.fields_to_export
        try:
            exporter._write_headers_and_set_fields_to_export(item)
        except BaseException:
            sink.cut(mark)
            exporter.fields_to_export = fields
            raise
        exporter._headers_not_written = False
        header = sink.getvalue()[mark:]
        if header and self.begins_with.startswith(header):
            sink.cut(mark)

    def _get_exporter(self, file: Any, format_: str, *args: Any, **kwargs: Any) -> BaseItemExporter:
        kind = self.exporters[format_]
        if isinstance(kind, type) and issubclass(kind, _WRITE_ONLY):
            file = self.sink = Sink(file)
        return super()._get_exporter(file, format_, *args, **kwargs)


class LineExporter(BaseItemExporter):
    """For exporters of a project's own whose file is whole after each item, so that its feed can grow.

    They do nothing with their file but write to it and ask `tell`; an item is written when `export_item` returns, and
    nothing after the last one.
    """

    header = b""
    """What every file begins with; `start_exporting` writes it where nothing is yet."""
    line_end = b"\n"
    """What each line ends with."""


class Sink(io.BytesIO):
    """Bytes on their way to a file, of which the last can be taken back. `tell` counts those of the file, too."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file

    def tell(self) -> int:
        """Where the next byte goes in the file."""
        return self._file.tell() + super().tell()

    def mark(self) -> int:
        """How many bytes are here."""
        return super().tell()

    def cut(self, mark: int) -> None:
        """Take back what came after the mark."""
        self.seek(mark)
        self.truncate()


_fill_in: Callable[[str, Mapping[str, Any]], str] = getattr(
    feedexport, "apply_uri_params", lambda template, params: template % params
)
"""Fill in an address; before Scrapy 2.18 each `%` in it was part of a parameter."""


class _Opened:
    """Stands where a storage does, for a file that is open."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def open(self, spider: Spider) -> IO[bytes]:
        return self._file

    def store(self, file: IO[bytes]) -> None:
        raise NotImplementedError


_WRITE_ONLY = (
    CsvItemExporter,
    JsonItemExporter,
    JsonLinesItemExporter,
    LineExporter,
    MarshalItemExporter,
    PickleItemExporter,
    PprintItemExporter,
    XmlItemExporter,
)
"""Exporters that do nothing with their file but write to it."""


def writes_lines(kind: Any) -> bool:
    """Whether what such an exporter writes is whole after each item: JSON Lines and CSV, with nothing before the first
    item but a header and nothing behind the last (`_write_headers_and_set_fields_to_export` writes the header), and
    whatever a `LineExporter` writes.
    """
    for base, own in (
        (JsonLinesItemExporter, ("start_exporting", "finish_exporting")),
        (
            CsvItemExporter,
            ("start_exporting", "finish_exporting", "_write_headers_and_set_fields_to_export"),
        ),
    ):
        if isinstance(kind, type) and issubclass(kind, base):
            return all(getattr(kind, name) is getattr(base, name) for name in own)
    return isinstance(kind, type) and issubclass(kind, LineExporter)


class WellFormedXml(XmlItemExporter):
    """In place of Scrapy's, which writes what no parser reads back: here every feed is well formed.

    A character that XML 1.0 cannot hold becomes U+FFFD, and a field whose name is no name in XML an element `field`
    with the `name` as its attribute. `_export_xml_field` writes one field, `_beautify_…` the space around it.
    """

    def _export_xml_field(self, name: str, serialized_value: Any, depth: int) -> None:
        self._beautify_indent(depth=depth)
        tag, attributes = (name, {}) if _XML_NAME.fullmatch(name) else ("field", {"name": _xml_text(name)})
        self.xg.startElement(tag, AttributesImpl(attributes))
        if isinstance(serialized_value, Mapping | list):
            pairs = (
                serialized_value.items()
                if isinstance(serialized_value, Mapping)
                else (("value", value) for value in serialized_value)
            )
            self._beautify_newline()
            for inner, value in pairs:
                self._export_xml_field(str(inner), value, depth=depth + 1)
            self._beautify_indent(depth=depth)
        else:
            self.xg.characters(_xml_text(str(serialized_value)))
        self.xg.endElement(tag)
        self._beautify_newline()


_XML_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
"""A name of an element that no parser stumbles over, without a namespace."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _xml_text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
