"""Import of the program's modules from the file that holds their byte code. `loader.build` puts this into the file."""

from __future__ import annotations

import marshal
import sys

TYPE_CHECKING = False  # `typing` would cost every process its import
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Dict, Optional


class StoredModules:
    """Finder and loader of `guard` and its modules. `code`: byte code by name; `sources`: packed by `loader.build`."""

    def __init__(self, code: Dict[str, bytes], sources: bytes) -> None:
        self._code, self._sources = code, sources

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Optional[ModuleSpec]:
        """Spec of a module of the program; None for any other."""
        if name not in self._code:
            return None
        kind: Any = type(sys.__spec__)  # ModuleSpec, without an import of importlib
        spec: ModuleSpec = kind(name, self, is_package=name == "guard")
        return spec

    def create_module(self, _spec: ModuleSpec) -> None:
        """A usual module."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute the byte code of a module."""
        exec(marshal.loads(self._code[module.__name__]), module.__dict__)  # noqa: S102, S302 - the program's own code

    def get_source(self, name: str) -> str:
        """Source of a module, for tracebacks."""
        import zlib

        sources: Dict[str, bytes] = marshal.loads(zlib.decompress(self._sources))  # noqa: S302 - written by `build`
        return sources[name].decode()
