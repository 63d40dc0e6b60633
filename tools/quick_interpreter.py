"""Triton's interpreter without work that it repeats: `quick_interpreter.install()`, before the first kernel runs.

Before each call of a function inside of a kernel, the interpreter goes through all names of Triton's language to find
those that it must replace, though the kernel has replaced them already; and for each block of numbers it makes a table
of types. Here both are done once. What the interpreter computes stays the same, in two thirds of the time. The tests of
kernels and `attack_attention.py` use it.
"""

import inspect
from typing import Any

NAMES = "_patch_lang", "_get_np_dtype", "_LangPatchScope"  # what is used here, private to Triton


def install() -> None:
    """Replaces two functions of the interpreter, unless this version of Triton has other names for them."""
    from triton.runtime import interpreter

    if not all(hasattr(interpreter, name) for name in NAMES):
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
