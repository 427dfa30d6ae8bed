"""Train a tokenizer on text files: `greffon.train_tokenizer`."""

from collections.abc import Sequence
from pathlib import Path

from greffon.core.conflicts import Idle, refuses
from greffon.core.errors import UserError, setting
from greffon.core.settings import takes
from greffon.data.corpora import documents, reason_without_columns
from greffon.data.tokenizer import Tokenizer


@refuses(Idle(("text_column",), lambda values: reason_without_columns(_listed(values["texts"]))))
@takes()
def train_tokenizer(
    texts: str | Path | Sequence[str | Path],
    *,
    out: str | Path,
    vocab_size: int = 8000,
    lowercase: bool = False,
    text_column: str = "text",
    force: bool = False,
) -> Tokenizer:
    """Train a tokenizer on text files and save it at `out`.

    With `lowercase`, all text is converted to lower case, so that *Excellent* and *excellent* are one word; text
    that a model generates is in lower case, too.
    """
    out = Path(out)
    if not texts:
        raise UserError("no text to train on; name at least one file, directory or glob")
    there = out / "tokenizer.json" if out.is_dir() else out
    if there.exists() and not force:
        raise UserError(
            f"{there} exists already; choose another {setting('out')}, or add {setting('force')} to replace it"
        )
    texts = _listed(texts)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)  # before the work, so that none is lost
        made = Tokenizer.train(documents(texts, text_column), vocab_size, lowercase=lowercase)
        made.save(out)
    except OSError as problem:
        raise UserError(f"cannot write {out}: {problem.strerror}; choose another {setting('out')}") from None
    return made


def _listed(texts: str | Path | Sequence[str | Path]) -> Sequence[str | Path]:
    return [texts] if isinstance(texts, str | Path) else texts
