"""Which tokens may be written at each step of a text. Knows no models."""

from dataclasses import dataclass

from greffon.core.recipe import GenerationConfig
from greffon.data.tokenizer import Tokenizer

NO_RULES = GenerationConfig()


@dataclass(frozen=True)
class Vocabulary:
    """Ids that generation must know: special tokens, tokens that are never written, and the rules of a checkpoint."""

    padding: int
    start: int
    end: int
    banned: tuple[int, ...] = ()
    generation: GenerationConfig = NO_RULES
    source_end: int | None = None
    """Token that stands behind a source, where it is not the end."""

    @property
    def closing(self) -> int:
        """Token that stands behind a source."""
        return self.end if self.source_end is None else self.source_end

    @property
    def ends(self) -> tuple[int, ...]:
        """Tokens that end a text."""
        return self.generation.eos_token_id or (self.end,)

    @property
    def never(self) -> tuple[int, ...]:
        """Tokens that are never written."""
        return self.banned + self.generation.suppress_tokens

    def banned_first(self, step: int, prompt: int = 1) -> tuple[int, ...]:
        """Return the tokens that may not be the first at a step, counted from 1, behind a prompt of so many tokens."""
        rules = self.generation
        first = 2 if prompt == 1 and rules.forced_bos_token_id is not None else 1
        return rules.begin_suppress_tokens if step == first else ()

    def forced_first(self, step: int, prompt: int = 1) -> int | None:
        """Return the token that must be written at a step, if there is one: only behind a single token, as theirs."""
        return self.generation.forced_bos_token_id if step == prompt == 1 else None


def vocabulary_of(tokenizer: Tokenizer, vocab_size: int, generation: GenerationConfig | None = None) -> Vocabulary:
    """Collect the ids that generation must know; ids without a token, and special ones but the end, are banned."""
    rules = generation or NO_RULES
    banned = [id for id in tokenizer.unwritten(vocab_size) if id not in rules.eos_token_id]
    return Vocabulary(tokenizer.pad, tokenizer.start, tokenizer.end, tuple(banned), rules)
