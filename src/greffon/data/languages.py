"""Tokens by which a translator of many languages is told what it reads and what it is to write."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from greffon.core.errors import UserError, did_you_mean, setting

Style = Literal["mbart", "mbart50", "m2m100", "nllb", "nllb-legacy"]


@dataclass(frozen=True)
class Languages:
    """The token of each language, and where it stands."""

    ids: Mapping[str, int]
    """Token of each language."""
    style: Style
    """Whose conventions hold."""
    source: str = ""
    """Language of the sources where none is named."""
    target: str = ""
    """Language of the translations where none is named."""

    @property
    def after(self) -> bool:
        """Whether a source ends with its language, behind the end token; otherwise it begins with it."""
        return self.style in ("mbart", "nllb-legacy")

    @property
    def starts(self) -> bool:
        """Whether a target begins with its language in place of the start token; otherwise it is the next token."""
        return self.style == "mbart"

    def source_id(self, name: str) -> int:
        """Return the token of the language of a source."""
        return self._id("source_lang", name or self.source)

    def target_id(self, name: str) -> int:
        """Return the token of the language to translate into."""
        return self._id("target_lang", name or self.target)

    def _id(self, option: str, name: str) -> int:
        if not name:
            some = ", ".join(sorted(self.ids)[:8])
            raise UserError(
                f"this translator knows {len(self.ids)} languages ({some}, …); name one by {setting(option)}"
            )
        if name not in self.ids:
            raise UserError(f"{setting(option, name)} is no language of this translator{did_you_mean(name, self.ids)}")
        return self.ids[name]
