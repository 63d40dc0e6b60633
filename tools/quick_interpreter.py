"""Triton's interpreter without work that it repeats: `quick_interpreter.install()`, before the first kernel runs.

Before each call of a function inside of a kernel, the interpreter goes through all names of Triton's language to find
those that it must replace, though the kernel has replaced them already; for each block of numbers it makes a table of
types, and it unwraps, checks, wraps and prints its shape. Here all of this is done once. What the interpreter computes
stays the same, in half the time. The tests of kernels and `attack_attention.py` use it.
"""

import inspect
from typing import Any

NAMES = "_patch_lang", "_get_np_dtype", "_LangPatchScope"  # what is used here, private to Triton
UNWRAP = "_unwrap_if_constexpr"


def install() -> None:
    """Replaces functions of the interpreter, unless this version of Triton has other names for them."""
    from triton.runtime import interpreter

    if not all(hasattr(interpreter, name) for name in NAMES) or not hasattr(interpreter.tl.core, UNWRAP):
        return
    language, slow_patch, slow_type = interpreter.tl, interpreter._patch_lang, interpreter._get_np_dtype
    languages_of: dict[Any, list[Any]] = {}
    types: dict[str, Any] = {}

    def patch(function: Any) -> Any:
        """Replaces the names of Triton's language in the modules that a function sees, unless they are replaced."""
        if function not in languages_of:
            modules = [value for value in function.__globals__.values() if inspect.ismodule(value)]
            languages_of[function] = [module for module in modules if module in (language, language.core)]
        seen = languages_of[function]
        if seen and not any(language.core.is_builtin(module.load) for module in seen):
            return interpreter._LangPatchScope()  # nothing to put back: the kernel around does it
        return slow_patch(function)

    def numpy_type(kind: Any) -> Any:
        """The type of numpy for a type of Triton, or for blocks of it."""
        element = kind.element_ty if isinstance(kind, language.block_type) else kind
        if isinstance(element, language.pointer_type):
            return slow_type(kind)
        if element.name not in types:
            types[element.name] = slow_type(element)
        return types[element.name]

    interpreter._patch_lang = patch
    interpreter._get_np_dtype = numpy_type
    _install_shapes(language)
    _install_values(language)


def _install_shapes(language: Any) -> None:
    """Replaces how types and tensors begin: what depends on the shape alone is made once for each shape."""
    core = language.core
    slow_type, slow_tensor = core.block_type.__init__, core.tensor.__init__
    of_types: dict[tuple[int, ...], tuple[Any, int, str]] = {}  # shape, number of elements, shape in words
    of_tensors: dict[tuple[int, ...], tuple[Any, Any]] = {}

    def begin_type(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple(getattr(shape, "values", shape))
        if (known := of_types.get(sizes)) is not None:
            self.element_ty, (self.shape, self.numel, words) = element_ty, known
            self.name = f"<{words}, {element_ty}>"
            return
        slow_type(self, element_ty, shape)
        if all(type(size) is int for size in sizes):
            of_types[sizes] = self.shape, self.numel, str(self.shape)

    def begin_tensor(self: Any, handle: Any, type: Any) -> None:
        sizes = tuple(type.shape.values) if type.is_block() else ()
        if (known := of_tensors.get(sizes)) is None:
            slow_tensor(self, handle, type)
            of_tensors[sizes] = self.shape, self.numel
            return
        self.handle, self.type, self.dtype, (self.shape, self.numel) = handle, type, type.scalar, known

    core.block_type.__init__, core.tensor.__init__ = begin_type, begin_tensor


def _install_values(language: Any) -> None:
    """Replaces two functions that are called for each value, most often one for which there is nothing to do."""
    core = language.core
    slow_unwrap, slow_equal = core._unwrap_if_constexpr, core.dtype.__eq__
    plain = {int, float, bool, str, type(None), core.tensor, core.dtype, core.block_type}

    def unwrap(value: Any) -> Any:
        return value if type(value) in plain else slow_unwrap(value)

    def equal(one: Any, other: Any) -> bool:
        return one is other or bool(slow_equal(one, other))

    core._unwrap_if_constexpr, core.dtype.__eq__ = unwrap, equal
