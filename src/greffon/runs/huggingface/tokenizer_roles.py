"""Which tokens of a checkpoint's vocabulary play which role: the ids of its config.json, and substitutes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from greffon.core.errors import UserError
from greffon.data.tokenizer import ROLES

_SUBSTITUTES = {"start": "end", "pad": "end", "cls": "start", "sep": "end", "mask": "pad"}
"""Substitutes for special tokens that a vocabulary lacks, because its models never use them."""


def first(value: Any) -> Any:
    """Return an id, or the first of several: where several tokens end a text, it ends the texts that we make."""
    return value[0] if isinstance(value, list) and value else value


def is_id(value: Any, pieces: Mapping[str, int]) -> bool:
    """Whether a setting is the id of a token."""
    return type(value) is int and value in pieces.values()


def complete(known: Mapping[str, int], path: Path) -> tuple[dict[str, int], list[str]]:
    """Substitute other tokens for missing special ones; raise a `UserError` if there is no end token."""
    roles = dict(known)
    if "end" not in roles and "pad" not in roles:
        raise UserError(f"{path}: neither config.json nor the tokenizer names a token that ends or pads; name one")
    roles.setdefault("end", roles.get("pad", 0))
    absent = [role for role in ROLES if role not in roles]
    for role in ("start", "pad", "cls", "sep", "mask"):
        roles.setdefault(role, roles[_SUBSTITUTES[role]])
    return roles, absent
