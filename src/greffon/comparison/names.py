"""Names of the arms of a comparison.

With one pretrained run the arms are `scratch`, `pretrained`, `frozen`, `tfidf`, `ensemble` and `majority`. With
several, each run gives its own name to its arm, and there are `frozen NAME`, `ensemble NAME` and, where a run has
another architecture than the first, `scratch NAME`.
"""

SCRATCH = "scratch"
PRETRAINED = "pretrained"
FROZEN = "frozen"
TFIDF = "tfidf"
ENSEMBLE = "ensemble"
MAJORITY = "majority"

TFIDF_TITLE = "TF-IDF + logistic regression"
"""Name of the TF-IDF baseline in sentences."""


def is_scratch(name: str) -> bool:
    """Whether an arm starts from fresh weights."""
    return name.partition(" ")[0] == SCRATCH


def is_taken(name: str) -> bool:
    """Whether a run of this name, among several, would be confused with another arm.

    >>> is_taken("tfidf"), is_taken("frozen body"), is_taken("body")
    (True, True, False)
    """
    return name in (PRETRAINED, TFIDF, MAJORITY) or name.partition(" ")[0] in (SCRATCH, FROZEN, ENSEMBLE)


def frozen_name(run: str) -> str:
    """Name the frozen arm of a run.

    >>> frozen_name("pretrained"), frozen_name("lab")
    ('frozen', 'frozen lab')
    """
    return FROZEN if run == PRETRAINED else f"{FROZEN} {run}"


def ensemble_name(run: str) -> str:
    """Name the ensemble of a run and TF-IDF.

    >>> ensemble_name("pretrained"), ensemble_name("lab")
    ('ensemble', 'ensemble lab')
    """
    return ENSEMBLE if run == PRETRAINED else f"{ENSEMBLE} {run}"


def shown(name: str) -> str:
    """Write an arm's name for a reader.

    >>> shown("tfidf"), shown("ensemble lab")
    ('TF-IDF', 'ensemble lab')
    """
    return "TF-IDF" if name == TFIDF else name
