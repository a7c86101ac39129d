"""Has each request tell which process asks; copied into a project, and there before all that a spider sets.

A request that follows a redirect has the headers of the one that was redirected, `User-Agent` among them, and another
process may be the one that asks.
"""


class WhoAsks:
    """Sets the `User-Agent` of this process, whatever the request has."""

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler.settings["USER_AGENT"])

    def __init__(self, agent):
        self._agent = agent

    def process_request(self, request):
        request.headers["User-Agent"] = self._agent
