"""The addresses of the API: which URLs there are, and which arguments may go into them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from carscraper.exceptions import ApiError
from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.origins import DEFAULT_PORTS, origin_of

FIRST_YEAR, LAST_YEAR = 1900, 2100
"""Model years outside are taken for errors of the source."""

PROVINCES = (
    "Gauteng",
    "Limpopo",
    "Northern Cape",
    "Eastern Cape",
    "Western Cape",
    "North West Province",
    "Mpumalanga",
    "Kwazulu Natal",
    "Free State",
)
"""As the API spells them."""

_CODE = re.compile(r"[A-Za-z0-9+/_=-]{1,128}")
_RANGE = re.compile(r"(?P<low>[0-9]{1,9})(?:-(?P<high>[0-9]{1,9}))?")
_OFFSET = re.compile(r"[0-9]{1,9}")
_WEB_URL = re.compile(r"https?://[^\s/?#]+[^\s\x00-\x1f\x7f]*", re.IGNORECASE)
LONGEST_LINK = 8000
"""Characters; servers take no more."""
_LINK = re.compile(rf"[!-~]{{1,{LONGEST_LINK}}}")
SEARCH_PATH, SPECS_PATH = "/v3/vehicle", "/v2/specs"


@dataclass(frozen=True, slots=True)
class SpecKey:
    """What a specification is known by; many listings share one."""

    code: str
    year: int

    @property
    def text(self) -> str:
        """`code/year`, the key in the response store. A code may hold `/`; the year follows the last."""
        return f"{self.code}/{self.year}"


@dataclass(frozen=True, slots=True)
class SearchFilters:
    """The API's own filters; None does not filter. `from_arguments` makes a checked one."""

    make: str | None = None
    model: str | None = None
    """Needs `make`."""
    variant: str | None = None
    """Needs `model`."""
    province: str | None = None
    """One of `PROVINCES`."""
    year: str | None = None
    """Model years `a-b`, both included."""
    price: str | None = None
    """Rand `a-b`, both included."""
    mileage: str | None = None
    """Kilometres `a-b`, both included."""
    new_or_used: str | None = None
    """`New` or `Used`; others are possible."""
    keyword: str | None = None

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, str]) -> SearchFilters:
        """The filters that a user asked for by name, as in `-a make=Audi -a year=2015-2020`.

        A range may be one number: `year=2015` is `2015-2015`. Raises `ConfigurationError` that names the
        argument.
        """
        known = [field.name for field in fields(cls)]
        for name in arguments:
            if name not in known:
                raise ConfigurationError(f"unknown argument {name!r}; a search knows {', '.join(known)}")
        checked = {name: _checked_argument(name, text) for name, text in arguments.items()}
        for name, needed in (("model", "make"), ("variant", "model")):
            if name in checked and needed not in checked:
                raise ConfigurationError(f"argument {name} needs {needed} beside it")
        return cls(**checked)


NO_FILTERS = SearchFilters()


def check_base_url(text: str) -> str:
    """The value of CARS_API_URL in the one way to write it, or `ConfigurationError`.

    Its host is in lower case then, and a trailing slash and a default port are gone.

    It must be an absolute http or https URL with a host and without credentials, query and fragment.
    """
    problem = _base_url_problem(text)
    if problem:
        hidden = re.sub(r"^([a-z]+://)?.*@", r"\1***@", text, flags=re.DOTALL | re.IGNORECASE)
        raise ConfigurationError(f"CARS_API_URL={hidden!r} {problem}")
    return origin_of(text) + urlsplit(text).path.removesuffix("/")


def search_url(base_url: str, *, offset: int, limit: int, filters: SearchFilters = NO_FILTERS) -> str:
    """One page of listings, newest first, written as the API writes its own links (brackets as %5B %5D).

    `offset` counts listings from 0. Equal pages have equal URLs. That filters come last, in the order of
    `SearchFilters`, and that an open model or variant is written `All`, is deduced from one example.
    """
    query = [
        ("page[offset]", str(offset)),
        ("page[limit]", str(limit)),
        ("include_featured", "true"),
        ("sort[date]", "desc"),
    ]
    if filters.make:
        query.append(
            (f"make_model_variant[{filters.make}][{filters.model or 'All'}][{filters.variant or 'All'}]", "")
        )
    for name in ("province", "year", "price", "mileage", "new_or_used"):
        value = getattr(filters, name)
        if value:
            query.append((f"{name}[0]", value))
    if filters.keyword:
        query.append(("keyword", filters.keyword))
    return f"{base_url}{SEARCH_PATH}?{urlencode(query, quote_via=quote, safe='')}"


def spec_url(base_url: str, code: str, year: int) -> str:
    """The specification of one variant; the code is one quoted segment of the path.

    Raises `ApiError` for a code or year that cannot be asked for; see `key_problem`.
    """
    problem = key_problem(code, year)
    if problem:
        raise ApiError(*problem)
    # As `quote(code, safe="")` has it, for the characters that a code may have, in a tenth of the time.
    segment = code.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    return f"{base_url}{SPECS_PATH}/{segment}/{year}"


def key_problem(code: object, year: object) -> tuple[str, str] | None:
    """Why no specification can be asked for under this key: the field and the problem; None when it can."""
    if type(code) is not str or not _CODE.fullmatch(code):
        shown = repr(code) if len(repr(code)) <= 140 else f"{repr(code)[:140]}…"
        return "code", f"{shown} is not 1 to 128 characters of A-Z a-z 0-9 + / _ = -"
    if type(year) is not int or not FIRST_YEAR <= year <= LAST_YEAR:
        return "year", f"{str(year)[:40]!r} is not a year from {FIRST_YEAR} to {LAST_YEAR}"
    return None


def web_url(given: object) -> str:
    """The address of a page for people, as it was given; empty for what is none: no text, or not http(s)."""
    return given if isinstance(given, str) and _WEB_URL.fullmatch(given) else ""


def page_offset(url: str) -> int:
    """The offset that a link of the API leads to; `ApiError` when it names none, or more than one."""
    try:
        query = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    except ValueError as error:
        raise ApiError("page[offset]", f"not a link: {url[:200]!r}") from error
    offsets = [value for name, value in query if name == "page[offset]"]
    if len(offsets) != 1 or not _OFFSET.fullmatch(offsets[0]):
        raise ApiError("page[offset]", f"no single offset in the link {url[:200]!r}")
    return int(offsets[0])


def check_search_link(base_url: str, url: str) -> None:
    """Raise `ApiError` unless the URL asks this API, under this address, for listings.

    It is compared as it is written: no other spelling of the same address is needed by anybody.
    """
    if not _LINK.fullmatch(url):
        raise ApiError(
            "", f"{url[:80]!r} is not 1 to {LONGEST_LINK} printable ASCII characters without spaces"
        )
    if not url.startswith(f"{base_url}{SEARCH_PATH}?") or "#" in url:
        raise ApiError("", f"{url[:80]!r} does not begin with {base_url}{SEARCH_PATH}?")


def page_limit(url: str) -> int | None:
    """How many listings a link of the API asks for; None when it does not say."""
    try:
        query = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    except ValueError:
        return None
    limits = [value for name, value in query if name == "page[limit]"]
    return int(limits[0]) if len(limits) == 1 and _OFFSET.fullmatch(limits[0]) and int(limits[0]) else None


def search_of(url: str) -> str:
    """What a link of the API searches, the same for all of its pages."""
    parts = urlsplit(url)
    query = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != "page[offset]"]
    return f"{parts.path}?{urlencode(query)}"


def _base_url_problem(text: str) -> str:
    if not text.isascii() or not text.isprintable() or re.search(r"[\s\\\"<>]", text):
        return "holds characters that a URL cannot hold"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        return f"is not a URL: {error}"
    if parts.scheme not in DEFAULT_PORTS or not host:
        return "is not an absolute http or https URL, such as https://api.cars.co.za/fw/public"
    if port == 0:
        return "has port 0, where nothing can listen"
    if "@" in parts.netloc:
        return "holds credentials; the API needs none"
    if "?" in text or "#" in text:
        return "has a query or a fragment; the crawl adds its own"
    return ""


def _checked_argument(name: str, text: str) -> str:
    value = text.strip()
    if not value or len(value) > 100 or not value.isprintable():
        raise ConfigurationError(f"argument {name}={text[:110]!r} must be 1 to 100 printable characters")
    if name in ("year", "price", "mileage"):
        return _checked_range(name, value)
    if name == "province":
        for province in PROVINCES:
            if value.casefold() == province.casefold():
                return province
        raise ConfigurationError(f"argument province={value!r} is none of {', '.join(PROVINCES)}")
    if name in ("make", "model", "variant") and re.search(r"[\[\]]", value):
        raise ConfigurationError(f"argument {name}={value!r} must not hold square brackets")
    return value


def _checked_range(name: str, value: str) -> str:
    match = _RANGE.fullmatch(value)
    if not match:
        raise ConfigurationError(
            f"argument {name}={value!r} must be a number or a range, such as 2015 or 2015-2020"
        )
    low = int(match["low"])
    high = int(match["high"] or low)
    if low > high:
        raise ConfigurationError(f"argument {name}={value!r} must not fall: {low} is above {high}")
    if name == "year" and not FIRST_YEAR <= low <= high <= LAST_YEAR:
        raise ConfigurationError(f"argument year={value!r} must lie in {FIRST_YEAR} to {LAST_YEAR}")
    return f"{low}-{high}"
