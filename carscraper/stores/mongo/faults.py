"""Whether it is worth another try that something has failed in MongoDB, and what it says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dns.exception import DNSException
from dns.resolver import NXDOMAIN, NoAnswer
from pymongo import errors

from carscraper.exceptions import StoreError, StoreRefused, StoreUnavailable

UNAVAILABLE = {
    6: "HostUnreachable", 7: "HostNotFound", 24: "LockTimeout", 43: "CursorNotFound", 46: "LockBusy",
    50: "MaxTimeMSExpired", 63: "StaleShardVersion", 64: "WriteConcernFailed", 89: "NetworkTimeout",
    91: "ShutdownInProgress", 100: "UnsatisfiableWriteConcern", 112: "WriteConflict",
    117: "ConflictingOperationInProgress", 133: "FailedToSatisfyReadPreference",
    134: "ReadConcernMajorityNotAvailableYet", 150: "StaleEpoch", 175: "QueryPlanKilled",
    189: "PrimarySteppedDown", 202: "NetworkInterfaceExceededTimeLimit", 237: "CursorKilled",
    262: "ExceededTimeLimit", 391: "ReauthenticationRequired", 9001: "SocketException",
    10058: "LegacyNotPrimary", 10107: "NotWritablePrimary", 11600: "InterruptedAtShutdown",
    11601: "Interrupted", 11602: "InterruptedDueToReplStateChange", 13388: "StaleConfig",
    13435: "NotPrimaryNoSecondaryOk", 13436: "NotPrimaryOrSecondary", 14031: "OutOfDiskSpace",
}  # fmt: skip
"""Codes of what passes, and has nothing to do with a record; as in the server's `error_codes.yml`."""
REFUSED = {
    11: "UserNotFound", 13: "Unauthorized", 18: "AuthenticationFailed", 20: "IllegalOperation",
    59: "CommandNotFound", 73: "InvalidNamespace", 79: "UnknownReplWriteConcern", 115: "CommandNotSupported",
    166: "CommandNotSupportedOnView", 323: "APIStrictError", 334: "MechanismUnavailable", 8000: "AtlasError",
    13297: "DatabaseDifferCase",
}  # fmt: skip
"""Codes of what would come again for every record."""
NAMESPACE_EXISTS = 48
"""Code of a collection that is made, and is there."""
_DUPLICATE_KEY = 11000


def kind_of(code: int | None) -> type[StoreError] | None:
    """What a failed write, of which the server told that code, says of all others; None when it says nothing."""
    if code in UNAVAILABLE:
        return StoreUnavailable
    return StoreRefused if code in REFUSED else None


def failure(error: errors.PyMongoError) -> type[StoreError]:
    """Whether it is worth another try that a call has failed as a whole."""
    if isinstance(error, errors.ConfigurationError):
        cause = error.__cause__  # the look-up of a mongodb+srv name, which fails when the network does
        passes = isinstance(cause, DNSException) and not isinstance(cause, NXDOMAIN | NoAnswer)
        return StoreUnavailable if passes else StoreRefused
    if isinstance(error, errors.OperationFailure):
        if error.has_error_label("RetryableWriteError") or error.has_error_label("TransientTransactionError"):
            return StoreUnavailable
        unknown_outcome = isinstance(error, errors.WriteConcernError)
        return kind_of(error.code) or (StoreUnavailable if unknown_outcome else StoreRefused)
    if isinstance(error, errors.ServerSelectionTimeoutError) and "certificate verify failed" in str(error):
        return StoreRefused
    return StoreUnavailable


def message(error: errors.PyMongoError) -> str:
    """What it says, but for the command that failed and the state of all servers."""
    details = error.details if isinstance(error, errors.OperationFailure) else None
    text = str((details or {}).get("errmsg") or error)
    return re.split(r" to execute command | \(configured timeouts|, Timeout: |, full error: ", text)[0]


def is_there_already(error: Mapping[str, Any]) -> bool:
    """Whether an insert has failed because another worker was faster."""
    return error["code"] == _DUPLICATE_KEY and list(error.get("keyPattern", {})) == ["_id"]
