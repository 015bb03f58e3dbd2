"""Settings as dataclass fields: help and limits beside each default, ``KEY=VALUE`` words, and errors that help."""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

TYPES: dict[str, Any] = {"bool": bool, "int": int, "float": (int, float), "str": str}


class ConfigError(ValueError):
    """A setting that cannot be used; the message says which and what would be right."""


def setting(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] = (),
    or_module: bool = False,
    low: float = -math.inf,
    high: float = math.inf,
    above: float = -math.inf,
    travels: bool = False,
    local: bool = False,
    by_algo: bool = False,
    follows: bool = False,
    decides: str = "",
) -> Any:
    """A field of ``Config``: its default, what it means, the values that it takes (``above`` is exclusive, and
    ``or_module``: beside the choices, what a user's module has), what it is.

    One that ``travels`` is told to agents of other machines: playing depends on it. A ``local`` one is of a machine and
    not of what is learnt. One that is ``by_algo`` is decided by ALGO where it is not given, and one that ``follows`` by
    other settings, also by those of RESUME. ``decides`` names what only goes on after RESUME while it stays the same:
    the ``model``, or the ``players`` whose games are under way.
    """
    limits = {"help": help, "choices": choices, "or_module": or_module, "low": low, "high": high, "above": above}
    kinds = {"travels": travels, "local": local, "by_algo": by_algo, "follows": follows, "decides": decides}
    return dataclasses.field(default=default, metadata={**limits, **kinds})


def settings_that(cls: type, kind: str, value: Any = True) -> tuple[str, ...]:
    """The names of the settings that are of this kind, as ``setting`` declares it."""
    return tuple(field.name for field in dataclasses.fields(cls) if field.metadata[kind] == value)


def read_words(cls: type, words: Iterable[str]) -> dict[str, Any]:
    """Values by field name from ``KEY=VALUE`` words; those of ``CONFIG=file.toml`` give way to the words."""
    from_file: dict[str, Any] = {}
    given: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals:
            raise ConfigError(f"'{word}' is not a setting: write KEY=VALUE, for example GAME=Pong")
        if key == "CONFIG":
            from_file |= _read_toml(cls, text)
        else:
            field = _field(cls, key)
            given[field.name] = _parse(field, text)
    return {**from_file, **given}


def check(settings: Any, cls: type | None = None) -> None:
    """Refuse values of the wrong type, unknown choices and numbers out of range, as ``cls`` or its own class says."""
    for field in dataclasses.fields(cls or settings):
        _check(field, getattr(settings, field.name))


def settings_table(cls: type) -> list[tuple[str, str, str]]:
    """(KEY, default, meaning) of every setting, for ``help`` and the docs."""
    rows = []
    for field in dataclasses.fields(cls):
        meaning = field.metadata["help"]
        named = [choice for choice in field.metadata["choices"] if choice]
        if named:
            meaning += f" ({', '.join(named)})"
        rows.append((field.name.upper(), _show(field.default), meaning))
    return rows


def _show(value: Any) -> str:
    if value is None:
        return "auto"
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def nearest(word: str, known: Iterable[str]) -> str:
    match = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" Did you mean {match[0]}?" if match else ""


def _field(cls: type, key: str) -> dataclasses.Field[Any]:
    fields = {field.name.upper(): field for field in dataclasses.fields(cls)}
    if key not in fields:
        hint = nearest(key.upper(), [*fields, "CONFIG"]) or " './run.sh help' lists the settings."
        raise ConfigError(f"{key} is not a setting.{hint}")
    return fields[key]


def _parse(field: dataclasses.Field[Any], text: str) -> Any:
    """The value that ``text`` stands for, by the type of the field."""
    kind = str(field.type).removesuffix(" | None")
    if text == "auto" and str(field.type).endswith(" | None"):
        return None
    try:
        if kind == "bool":
            return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[text.lower()]
        if kind == "int":
            return _whole(text)
        if kind == "float":
            return float(text)
    except (KeyError, ValueError, OverflowError):
        wanted = {"bool": "0 or 1", "int": "a whole number", "float": "a number"}[kind]
        raise ConfigError(f"{field.name.upper()}={text} is not {wanted}") from None
    return text


def _whole(text: str) -> int:
    """An integer, also written as ``1e6`` or ``1_000_000``."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise
        return int(number)


def _check(field: dataclasses.Field[Any], value: Any) -> None:
    key, limits = field.name.upper(), field.metadata
    optional = str(field.type).endswith(" | None")
    kind = str(field.type).removesuffix(" | None")
    if value is None and optional:
        return
    if not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
        raise ConfigError(f"{key}={value!r} is not of type {kind}")
    own = limits["or_module"] and re.fullmatch(r"[\w.]+:[\w.]+", str(value))
    if limits["choices"] and value not in limits["choices"] and not own:
        known = [choice for choice in limits["choices"] if choice]
        or_own = ", or your own as module:Class" if limits["or_module"] else ""
        raise ConfigError(f"{key}={value} is unknown.{nearest(value, known)} It is one of: {', '.join(known)}{or_own}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{key}={value} is not a finite number")
        if value < limits["low"] or value > limits["high"] or value <= limits["above"]:
            bounds = [
                f"above {limits['above']:g}" if limits["above"] > -math.inf else "",
                f"at least {limits['low']:g}" if limits["low"] > -math.inf else "",
                f"at most {limits['high']:g}" if limits["high"] < math.inf else "",
            ]
            raise ConfigError(
                f"{key}={_show(value)} is out of range: it has to be {' and '.join(b for b in bounds if b)}"
            )


def _read_toml(cls: type, path: str) -> dict[str, Any]:
    try:
        table = tomllib.loads(
            Path(os.path.expanduser(path)).read_text(encoding="utf-8-sig")
        )  # some editors begin with a mark
    except OSError as error:
        raise ConfigError(f"CONFIG={path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # not TOML, not UTF-8, or no name of a file
        raise ConfigError(f"CONFIG={path} is not a TOML file: {error}") from None
    given: dict[str, Any] = {}
    for key, value in table.items():
        field = _field(cls, key.upper())
        if field.name in given:  # TOML itself refuses the same spelling
            raise ConfigError(f"CONFIG={path} has {field.name.upper()} twice, in two spellings: leave one of them out")
        # Numbers and switches may be written as TOML's own or as on the command line.
        given[field.name] = _parse(field, value) if isinstance(value, str) else value
    return given
