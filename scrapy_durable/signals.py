"""What the response store's middleware lets the scheduler know of a request that need not go on the wire.

Both are sent with the `request`. Whoever can hand it out again later returns True; nobody has to listen.
"""

from __future__ import annotations

request_waits = object()
"""The request waits for another's download of the same answer. It leaves its place and its time on the wire to
others: if a receiver returned True, it does not go there any more.
"""

request_waited_in_vain = object()
"""That download brought no answer: the request that waited has to be handed out again."""
