import logging

from scrapy_durable.responses.rare_log import RareLog


def test_a_kind_is_written_at_once_then_once_a_minute_with_the_count_between(caplog):
    now = [0.0]
    log = RareLog(logging.getLogger("test"), clock=lambda: now[0])
    for second in range(0, 90):
        now[0] = float(second)
        log.warning("It failed", f"at {second}")
    log.warning("Another thing failed", "now")
    assert [record.message for record in caplog.records] == [
        "It failed (at 0; 0 more since the last line)",
        "It failed (at 60; 59 more since the last line)",
        "Another thing failed (now; 0 more since the last line)",
    ]
