"""The shop's pages, as functions of their paths: no clock, no chance, no network.

/                      links to every category
/category/NAME?page=K  eight products, and the next page; each category is on one of the hosts
/product/SKU           one product; those of a SKU that 40 divides answer 503 when they are asked first
/go/SKU                redirects to the product, on another host
/login                 a form with a hidden field; posted, it redirects to /account
/account               says how many pages /api/search has
/api/search            takes {"page": K}, tells SKUs and addresses, of which some are gone (404)
/rate                  the same address for every product that asks what its price is in pounds
/quotes/page/K/        three quotes, with tags, links to authors, and the next page
/author/NAME           one author
/robots.txt            allows everything
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html import escape
from math import ceil
from urllib.parse import parse_qs, urlsplit

CATEGORIES = ("bowls", "cups", "forks", "jugs", "pans", "plates")
PER_CATEGORY = 20
PER_PAGE = 8
PER_SEARCH = 10
QUOTES = 120
PER_QUOTES_PAGE = 3
AUTHORS = tuple(f"author-{number}" for number in range(1, 41))
TAGS = ("books", "life", "love", "truth")
TOKEN = "a5f0c1"  # noqa: S105 (what the form hides, on purpose in every page)
SKUS = range(1, len(CATEGORIES) * PER_CATEGORY + 1)


@dataclass
class Answer:
    """What is sent: status, body, and headers beside those that every answer has."""

    status: int = 200
    body: str = ""
    content_type: str = "text/html; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)


class Pages:
    """The shop on `addresses`, as in `["http://127.0.0.1:8000", "http://127.0.0.2:8000"]`.

    `answer` is the whole of it. Its one memory is which addresses have answered 503 already.
    """

    def __init__(self, addresses: list[str]) -> None:
        self.addresses = addresses
        self._has_failed: set[str] = set()

    def reset(self) -> None:
        """Forget which addresses have failed."""
        self._has_failed.clear()

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        """The answer to one request; `target` is the raw `path?query`."""
        path = urlsplit(target).path
        first, *rest = path.strip("/").split("/")
        if path == "/robots.txt":
            return Answer(body="User-agent: *\nAllow: /\n", content_type="text/plain")
        if path == "/":
            return self._index()
        try:
            match first, rest:
                case "category", [name]:
                    return self._category(name, int(parse_qs(urlsplit(target).query).get("page", ["1"])[0]))
                case "product", [sku]:
                    return self._product(path, int(sku))
                case "go", [sku]:
                    return _redirect(self._product_url(int(sku)))
                case "login", []:
                    return self._login(method, body)
                case "account", []:
                    return _page("account", f'<p id="pages">{ceil(len(SKUS) / PER_SEARCH)}</p>')
                case "api", ["search"]:
                    return self._search(json.loads(body)["page"])
                case "rate", []:
                    return _page("rate", '<p class="rate">0.5</p>')
                case "quotes", ["page", number]:
                    return _quotes(int(number))
                case "author", [name] if name in AUTHORS:
                    return _page(
                        name, f'<h3 class="name">{name.title()}</h3><p class="born">{1800 + len(name)}</p>'
                    )
        except (ValueError, KeyError, TypeError):
            return Answer(400, "<p>bad request</p>")
        return Answer(404, "<p>not found</p>")

    def _host(self, number: int) -> str:
        return self.addresses[number % len(self.addresses)]

    def _product_url(self, sku: int) -> str:
        return f"{self._host(sku)}/product/{sku}"

    def _index(self) -> Answer:
        links = "".join(
            f'<li><a href="{self._host(number)}/category/{name}">{name}</a></li>'
            for number, name in enumerate(CATEGORIES)
        )
        return _page("shop", f"<ul>{links}</ul>")

    def _category(self, name: str, page: int) -> Answer:
        if name not in CATEGORIES:
            return Answer(404, "<p>not found</p>")
        skus = SKUS[CATEGORIES.index(name) :: len(CATEGORIES)][(page - 1) * PER_PAGE : page * PER_PAGE]
        links = "".join(f'<li><a href="{self._link(sku)}">{_title(sku)}</a></li>' for sku in skus)
        if page * PER_PAGE < PER_CATEGORY:
            links += f'<li class="next"><a href="/category/{name}?page={page + 1}">next</a></li>'
        return _page(name, f"<ol>{links}</ol>")

    def _link(self, sku: int) -> str:
        """Where a category's page leads for a product: for some by a redirect from the next host."""
        return f"{self._host(sku + 1)}/go/{sku}" if sku % 5 == 0 else self._product_url(sku)

    def _product(self, path: str, sku: int) -> Answer:
        if sku not in SKUS:
            return Answer(404, "<p>not found</p>")
        if sku % 40 == 0 and path not in self._has_failed:
            self._has_failed.add(path)
            return Answer(503, "<p>later</p>")
        price = f'<span class="sku">{sku}</span><span class="price">{sku * 3}.50</span>'
        return _page(_title(sku), f"<h1>{_title(sku)}</h1>{price}")

    def _login(self, method: str, body: bytes) -> Answer:
        if method == "POST":
            sent = parse_qs(body.decode())
            if sent.get("token") != [TOKEN] or sent.get("user") != ["reader"]:
                return Answer(403, "<p>no</p>")
            return _redirect("/account")
        form = (
            f'<form action="/login" method="post"><input type="hidden" name="token" value="{TOKEN}">'
            '<input name="user"><input type="submit" value="in"></form>'
        )
        return _page("login", form)

    def _search(self, page: int) -> Answer:
        skus = SKUS[(page - 1) * PER_SEARCH : page * PER_SEARCH]
        found = [
            {"sku": sku, "url": f"{self._host(sku)}/gone/{sku}" if sku % 11 == 0 else self._product_url(sku)}
            for sku in skus
        ]
        return Answer(body=json.dumps({"page": page, "found": found}), content_type="application/json")


def _title(sku: int) -> str:
    return f"{CATEGORIES[(sku - 1) % len(CATEGORIES)][:-1]} no. {sku}"


def _redirect(url: str) -> Answer:
    return Answer(302, headers={"Location": url})


def _page(title: str, body: str) -> Answer:
    return Answer(
        body=f"<!doctype html><html><head><title>{escape(title)}</title></head><body>{body}</body></html>"
    )


def _quotes(page: int) -> Answer:
    if not 1 <= page <= ceil(QUOTES / PER_QUOTES_PAGE):
        return Answer(404, "<p>not found</p>")
    quotes = "".join(
        f'<div class="quote"><span class="text">“Quote no. {number}.”</span>'
        f'<span>by <small class="author">{author.title()}</small> <a href="/author/{author}">(about)</a></span>'
        f'<div class="tags"><a class="tag">{TAGS[number % 4]}</a><a class="tag">{TAGS[number % 3]}</a></div></div>'
        for number in range((page - 1) * PER_QUOTES_PAGE, page * PER_QUOTES_PAGE)
        for author in [AUTHORS[number % len(AUTHORS)]]
    )
    if page * PER_QUOTES_PAGE < QUOTES:
        quotes += f'<ul class="pager"><li class="next"><a href="/quotes/page/{page + 1}/">Next</a></li></ul>'
    return _page("quotes", quotes)
