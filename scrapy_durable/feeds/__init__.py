"""Feeds that are made of the item log: each item once, whatever is killed (decision 0037).

`extension.py` takes the place of Scrapy's extension. Of each feed, `kinds.py` says how it is made:

    growing     JSON Lines and CSV in a local file: by whole lines, as items come (`growing.py`)
    at the end  whatever else: in one go, once the crawl has ended (`at_the_end.py`)
    batches     one file after the other, each stored once it is full (`batches.py`)
    Scrapy's    what can only be done as Scrapy does it: the standard output, appending over FTP

`notes.py` keeps what is known of each in `feeds.json`, beside the item log; `reading.py` reads the log; `whole_file.py`
writes a file that is there whole or not at all; `files.py` has what they all need of the file system. `firsts.py`
leaves out the items that repeat others, where the project says which do (`DurableFeeds.item_key`).
"""

from scrapy_durable.feeds.extension import DurableFeeds
from scrapy_durable.feeds.plan import Whereabouts

__all__ = ["DurableFeeds", "Whereabouts"]
