"""Which classes a document may name: those of the modules that a spider's module has imported.

A queue can be written to by others, so a name in it must not reach whatever Python has loaded. The modules of a
spider are those of its class and its bases, but for Scrapy's own; every module that is bound to a name in one of
them, or of which a class or function is; and so on through modules of the same top-level package as the spider. Modules
of other packages count when they are bound there, and are not searched any further. Nothing is ever imported.

What only this worker writes, on its own disk, may name what any module of the project has imported: a pipeline makes
items that the spider does not know.
"""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

from scrapy_durable.exceptions import CodecError

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOT_OF_A_PROJECT = ("builtins", "scrapy", "abc", "typing")


class SpiderClasses:
    """The classes that a spider can name, by module and qualified name; with `whole_project`, those that any loaded
    module of its top-level package can name.
    """

    def __init__(self, spider: type, *, whole_project: bool = False) -> None:
        self._spider = spider
        self._whole_project = whole_project
        self._modules: frozenset[str] = frozenset()

    def name_of(self, kind: type) -> str:
        """`module:qualified name`. Raises `CodecError` for a class that `find` would not release."""
        name = f"{kind.__module__}:{kind.__qualname__}"
        if self.find(name) is not kind:
            raise CodecError(f"the class {name} is not found by this name again")
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

    def _may_use(self, module: str) -> bool:
        if module not in self._modules:  # it may have been imported since
            self._modules = frozenset(_modules_of(self._spider, self._whole_project))
        return module in self._modules


def _modules_of(spider: type, whole_project: bool) -> set[str]:
    own = {base.__module__ for base in spider.__mro__ if _package(base.__module__) not in _NOT_OF_A_PROJECT}
    packages = {_package(name) for name in own}
    if whole_project:
        own |= {name for name in sys.modules if _package(name) in packages}
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
