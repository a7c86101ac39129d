"""A spider that uses what Scrapy has for sessions, redirects, proxies and rules, on two origins.

Each session has a cookie jar of its own, so that nothing depends on the order of the requests.
"""

import scrapy
from scrapy.http import FormRequest, JsonRequest


class MannersSpider(scrapy.Spider):
    name = "manners"
    http_user = "me"
    http_pass = "word"

    def __init__(self, *args, first, second, **kwargs):
        super().__init__(*args, **kwargs)
        self.first, self.second = first, second
        self.http_auth_domain = "127.0.0.2"
        self.allowed_domains = ["127.0.0.1", "127.0.0.2"]

    async def start(self):
        yield scrapy.Request(f"{self.first}/login", self.parse_login, meta={"cookiejar": "login"})
        for jar in "ab":
            yield scrapy.Request(f"{self.first}/jar/{jar}", self.parse_jar, meta={"cookiejar": jar})
        yield scrapy.Request(f"{self.first}/moved/3", meta={"cookiejar": "moved"})
        yield scrapy.Request(f"{self.first}/refresh")
        yield scrapy.Request(f"{self.second}/hidden")
        yield scrapy.Request(f"{self.first}/away")  # to an origin that is not allowed
        yield scrapy.Request(f"{self.first}/private/asked", meta={"dont_obey_robotstxt": True})
        yield scrapy.Request(f"{self.first}/own-cookie", cookies={"own": "1"}, meta={"cookiejar": "own"})
        yield scrapy.Request(f"{self.second}/proxied", meta={"proxy": self.first})
        yield FormRequest(f"{self.first}/form", formdata={"a": "1", "b": "ü"})
        yield JsonRequest(f"{self.first}/json", data={"a": [1, 2]})
        yield scrapy.Request(f"{self.first}/headers", headers={"X-Own": "1", "User-Agent": "another"})
        yield scrapy.Request(f"{self.first}/gone", meta={"handle_httpstatus_list": [404]})
        yield scrapy.Request(
            f"{self.first}/stays", meta={"dont_redirect": True, "handle_httpstatus_all": True}
        )

    def parse_login(self, response):
        yield response.follow("/account", self.parse_account, meta={"cookiejar": "login"})

    def parse_account(self, response):
        yield response.follow("/account/more", meta={"cookiejar": "login"})
        yield response.follow("/account/without", meta={"cookiejar": "login", "dont_merge_cookies": True})

    def parse_jar(self, response):
        yield response.follow(
            f"{response.url}/next", self.parse, meta={"cookiejar": response.meta["cookiejar"]}
        )

    def parse(self, response):
        yield {
            "url": response.url,
            "status": response.status,
            "redirects": response.meta.get("redirect_urls", []),
        }
