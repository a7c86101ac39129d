"""What the response store's middleware lets the scheduler know of a request that need not be sent.

Both are sent with the `request`. Whoever can hand it out again later returns True; nobody has to listen.
"""

from __future__ import annotations

request_shares_download = object()
"""The request waits for another's download of the same answer. It leaves its place and its time to
others: if a receiver returned True, it is not sent any more.
"""

shared_download_failed = object()
"""That download brought no answer: the request that waited has to be leased again."""
