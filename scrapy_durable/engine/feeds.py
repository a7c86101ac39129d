"""Scrapy's feeds, with the end of each in reach, and its XML, well formed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from xml.sax.xmlreader import AttributesImpl

from scrapy.exporters import XmlItemExporter
from scrapy.extensions.feedexport import FeedExporter

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.extensions.feedexport import FeedSlot


class OpenFeeds(FeedExporter):
    """`_close_slot` writes the end of a feed, and stores it; whatever an exporter or a storage raises ends there."""

    def failed_to_close(self, error: Exception) -> None:
        """A feed could not be ended or stored."""

    async def _close_slot(self, slot: FeedSlot, spider: Spider) -> None:
        try:
            await super()._close_slot(slot, spider)
        except Exception as error:  # noqa: BLE001 (see above)
            self.failed_to_close(error)


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
