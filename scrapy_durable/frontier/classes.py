"""Which classes a document may name: those of the modules that a spider's module has imported.

A queue can be written to by others, so a name in it must not reach whatever Python has loaded. The modules of a
spider are those of its class and its bases, but for Scrapy's own; every module that is bound to a name in one of
them, or of which a class or function is; and so on through modules of the same top-level package as the spider. Modules
of other packages count when they are bound there, and are not searched any further. Nothing is ever imported.
"""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy_durable.exceptions import CodecError

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOT_OF_A_PROJECT = ("builtins", "scrapy", "abc", "typing")


class SpiderClasses:
    """The classes that a spider can name, by module and qualified name."""

    def __init__(self, spider: type) -> None:
        self._spider = spider
        self._modules: frozenset[str] = frozenset()
        self._names: WeakKeyDictionary[type, str] = WeakKeyDictionary()
        """Of the classes that were found by them."""

    def name_of(self, kind: type) -> str:
        """`module:qualified name`. Raises `CodecError` for a class that `find` would not release; one that it has
        released is not looked for again.
        """
        known = self._names.get(kind)
        if known is not None:
            return known
        name = f"{kind.__module__}:{kind.__qualname__}"
        if self.find(name) is not kind:
            raise CodecError(f"the class {name} is not found by this name again")
        self._names[kind] = name
        return name

    def find(self, name: str) -> type:
        """The class of that name. Raises `CodecError` when no module of the spider has one."""
        module, _, path = name.partition(":")
        if not self._may_use(module):
            raise CodecError(f"the class {name} is in no module that the spider's module has imported")
        found: object = sys.modules[module]
        for part in path.split("."):
            found = vars(found).get(part) if isinstance(found, ModuleType | type) else None
        if not isinstance(found, type) or (found.__module__, found.__qualname__) != (module, path):
            raise CodecError(f"there is no class {name}")
        return found

    def modules(self) -> set[str]:
        """Those whose classes may be named, as far as they are loaded."""
        return _reachable(_own_modules(self._spider))

    def as_data(self, value: Any) -> Any:
        """What is to be kept of a value that cannot be kept as it is; the value itself when it is to be refused."""
        return value

    def _may_use(self, module: str) -> bool:
        if module not in self._modules:  # it may have been imported since
            self._modules = frozenset(self.modules())
        return module in self._modules


class ProjectClasses(SpiderClasses):
    """Those that any module of the spider's project can name: for what only this worker writes and reads, on its own
    disk. A pipeline makes items that the spider does not know.
    """

    def modules(self) -> set[str]:
        """Those whose classes may be named, as far as they are loaded."""
        packages = {_package(name) for name in _own_modules(self._spider)}
        return _reachable({name for name in sys.modules if _package(name) in packages})


def _own_modules(spider: type) -> set[str]:
    return {base.__module__ for base in spider.__mro__ if _package(base.__module__) not in _NOT_OF_A_PROJECT}


def _reachable(own: set[str]) -> set[str]:
    packages = {_package(name) for name in own}
    found = {name for name in own if name in sys.modules}
    ahead = list(found)
    while ahead:
        for name in _bound_in(sys.modules[ahead.pop()]):
            if name not in found and name in sys.modules:
                found.add(name)
                if _package(name) in packages:
                    ahead.append(name)
    return found


def _bound_in(module: ModuleType) -> Iterator[str]:
    for value in list(vars(module).values()):
        if isinstance(value, ModuleType):
            yield value.__name__
        elif isinstance(value, type | FunctionType):
            yield value.__module__


def _package(module: str) -> str:
    return module.partition(".")[0]
