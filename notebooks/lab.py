# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # The lab: a Transformer from the inside
#
# Pretrain a small language model on text without labels, swap its head, fine-tune it on a few labelled
# texts, and see whether it paid off. On the way: what the mask does, why positions, what attention
# costs, how many parameters, one direction against two, a translator, and what heads look at.
#
# You need `pip install 'greffon[demo,notebook]'`; the texts (movie reviews, and footnotes in two languages)
# arrive with it. All of it runs in under ten minutes on two cores. Every question has a folded answer: try first.

# %%
import io
import os
import warnings
from pathlib import Path

import torch

import greffon

SHORT = os.environ.get("GREFFON_LAB") == "short"  # a minute, to see that every cell runs
FOLDER = Path(os.environ.get("GREFFON_LAB_FOLDER", "lab-run"))
PRETRAINING_STEPS = 4 if SHORT else 200
TRANSLATION_STEPS = 4 if SHORT else 150
EPOCHS = 1 if SHORT else 3
warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"


def show(figure):
    """Show a figure under its cell."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=80)
    try:
        from IPython.display import Image, display
    except ModuleNotFoundError:  # read as a plain script
        return
    display(Image(image.getvalue()))


def trained(name, train):
    """Train a run, or open it if that was done before: executed again, the notebook goes on where it was."""
    out = FOLDER / name
    return greffon.Run.open(out) if (out / "finished").is_file() else train(out)


# %% [markdown]
# ## 1. The model
#
# A **body** turns token ids into hidden states; a **head** turns hidden states into scores. This is the body of a
# first course: 4 layers, width 200, 2 heads, sinusoidal positions.

# %%
shape = greffon.Shape(
    layers=4,
    hidden_size=200,
    heads=2,
    intermediate_size=200,
    activation="relu",
    norm="layer",
    norm_place="post",
    positions="sinusoidal",
    bias=True,
    tie_embeddings=False,
    dropout=0.1,
)
body = greffon.Decoder(shape, vocab_size=100)
model = greffon.Model(body, greffon.VocabularyHead(body.hidden_size, 100))
tokens = torch.randint(100, (2, 7))
print("token ids", tuple(tokens.shape), "→ states", tuple(body(tokens).shape), "→ scores", tuple(model(tokens).shape))
print(body.blocks[0])

# %% [markdown]
# **Question 1.** The states have one vector for each token. What does the head say at position 3, and what should it
# have said?
#
# <details><summary>Answer</summary>
#
# A score for each of the 100 tokens: which one comes at position 4. The target of each position is simply the next
# token of the text, so that a text without labels is its own teacher.
#
# </details>

# %% [markdown]
# ## 2. The mask
#
# Who may look at whom?

# %%
show(greffon.mask_figure(10, "causal", padding=3))

# %%
show(greffon.mask_figure(8, "seq2seq", padding=2))

# %% [markdown]
# A promise that can be tested: if no token sees a later one, then changing the last token changes no earlier state.

# %%
body.eval()
other = tokens.clone()
other[:, -1] = (other[:, -1] + 1) % 100
with torch.no_grad():
    change = (body(tokens) - body(other)).abs().amax(dim=(0, 2))
print("largest change of each position:", [round(float(value), 3) for value in change])
assert (change[:-1] == 0).all()
assert change[-1] > 0

# %% [markdown]
# **Question 2.** What would happen in training without the square mask? And why does a *masked* language model do
# without it?
#
# <details><summary>Answer</summary>
#
# Position 3 would see token 4, which is what it must predict: the loss would fall to nearly nothing and the model
# would have learned to copy. A masked model does not predict the next token but tokens that are *hidden*, behind
# `[MASK]`; these nobody can see, so it may look both ways.
#
# </details>

# %% [markdown]
# ## 3. Positions
#
# Attention is a weighted mean, and a mean does not know any order. Shuffle the words of a text, and a body that looks
# both ways, without positions, gives the same states, shuffled:

# %%
from dataclasses import replace

torch.manual_seed(0)
unordered = greffon.Encoder(replace(shape, positions="none"), vocab_size=100).eval()
order = torch.randperm(7)
with torch.no_grad():
    same = torch.allclose(unordered(tokens)[:, order], unordered(tokens[:, order]), atol=1e-5)
print("without positions, order makes no difference:", same)
assert same

# %%
show(greffon.positions_figure(preset="lab"))

# %% [markdown]
# **Question 3.** Each row of the heat map is a position. Which features tell neighbours apart, and which tell the
# beginning of a text from its end? Why is it good that near positions are alike?
#
# <details><summary>Answer</summary>
#
# The fast waves at the left change from one position to the next; the slow ones at the right hardly change over the
# whole text, and tell far places apart. If near positions were as different as far ones, whatever is learned about a
# word two places back would have to be learned again for three places back.
#
# </details>

# %% [markdown]
# ## 4. How many parameters?
#
# Count by hand first: V tokens, width d, feed-forward f, L layers.

# %%
V, d, f, L = 100, 200, 200, 4
embedding = V * d
attention = 4 * (d * d + d)  # query, key, value, out, each with its bias
feed_forward = (d * f + f) + (f * d + d)
norms = 2 * (2 * d)
head = d * V + V
by_hand = embedding + L * (attention + feed_forward + norms) + head

ledger = greffon.params(preset="lab", vocab_size=V)
for component in ledger.components[:5]:
    print(f"{component.name:<45} {component.formula:<55} {component.count:>9,}")
print(f"by hand {by_hand:,}; the ledger {ledger.total:,}; the tensors {sum(p.numel() for p in model.parameters()):,}")
assert by_hand == ledger.total == sum(p.numel() for p in model.parameters())

# %% [markdown]
# **Question 4.** The number of heads appears in no formula. Why? And what does a classifier of two classes have in
# place of the head?
#
# <details><summary>Answer</summary>
#
# Heads share the width: two heads of 100 features need the same matrices as four of 50. The classifier has
# d × 2 + 2 parameters in place of d × V + V; the line below counts them.
#
# </details>

# %%
print(greffon.params(preset="lab", vocab_size=V, classes=2).components[-1])

# %% [markdown]
# ## 5. Pretraining
#
# Reviews of films, without their labels. The tokenizer learns frequent pieces of words; the body learns what comes
# next. To see something in a minute we take the preset `compact`, which learns faster than the lab's own.

# %%
data = greffon.demo_data(FOLDER / "data", reviews=500 if SHORT else 8000)
reviews = data / "reviews.txt"
pieces = FOLDER / "tokenizer.json"
tokenizer = (
    greffon.Tokenizer.load(pieces)
    if pieces.is_file()
    else greffon.train_tokenizer([reviews], out=pieces, vocab_size=2000)
)
print([tokenizer.token(id) for id in tokenizer.encode("an unforgettable movie , isn't it ?")])

# %%
settings = {"tokenizer": pieces, "steps": PRETRAINING_STEPS, "context": 64, "batch_size": 16, "quiet": True}
causal = trained("causal", lambda out: greffon.pretrain([reviews], out=out, **settings))
print("held-out:", {name: round(value, 3) for name, value in causal.scores.items()})
show(greffon.curves_figure(causal))

# %% [markdown]
# **Question 5.** The first point of the curve is the loss before any training. What should it be, for a vocabulary of
# 2,000 tokens?
#
# <details><summary>Answer</summary>
#
# A model that knows nothing gives each token the same probability, 1/2000: a loss of ln 2000 = 7.6 nats.
#
# </details>

# %% [markdown]
# ## 6. Generation
#
# One token after another: each is drawn from what the model expects, and read back in.

# %%
for seed in range(3):
    print(greffon.generate(causal, "this movie is", max_new_tokens=15, seed=seed).text)
print("cold:", greffon.generate(causal, "this movie is", max_new_tokens=15, temperature=0.01).text)

# %% [markdown]
# **Question 6.** What does a low temperature do, and why is the result not simply the best text?
#
# <details><summary>Answer</summary>
#
# It always takes the likeliest next token. But the likeliest first word may lead where only unlikely words follow; and
# a text of only likely words says little, and soon turns in circles.
#
# </details>

# %% [markdown]
# ## 7. The head swap
#
# Take the vocabulary head off, graft a head of two classes on; the body keeps what it has learned.

# %%
pretrained = causal.load_model()
head = greffon.ClassHead(pretrained.body.hidden_size, 2, greffon.Graft(pooling="mean"))
grafted = greffon.Model(pretrained.body, head)
print(f"body: {sum(p.numel() for p in grafted.body.parameters()):,} parameters, as they were")
print(f"head: {sum(p.numel() for p in grafted.head.parameters()):,} parameters, new")
assert grafted.body is pretrained.body

# %% [markdown]
# ## 8. One direction against two
#
# The same text, the same steps: a second body that looks both ways and guesses hidden tokens.

# %%
masked = trained("masked", lambda out: greffon.pretrain([reviews], out=out, objective="masked", **settings))
for mask in greffon.fill(masked, "this movie is really [MASK] , and the actors are good .", top_k=3):
    print([(candidate.token, round(candidate.probability, 3)) for candidate in mask.candidates])

# %% [markdown]
# ## 9. Did pretraining pay off?
#
# Both bodies, each form from scratch, and TF-IDF with logistic regression beside them, on labelled reviews.
# Epochs are chosen on validation; the test decides nothing. After so few steps expect no gain: `make demo` shows one.


# %%
def first(name, count):
    """Keep the first rows of a table (they are shuffled), to be quick."""
    rows = (data / name).read_text(encoding="utf-8").split("\n")[: 1 + count]
    few = FOLDER / name
    few.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return few


comparison = greffon.compare(
    [causal, masked],
    train=first("train.csv", 40 if SHORT else 1000),
    valid=first("valid.csv", 20 if SHORT else 200),
    test=first("test.csv", 20 if SHORT else 400),
    out=FOLDER / "comparison",
    seeds=1,
    epochs=EPOCHS,
    jobs=1,
    quiet=True,
)
for name, arm in comparison.results.arms.items():
    low, high = arm.test_accuracy.interval
    print(f"{name:<18} {arm.test_accuracy.mean:.1%}  (95 % interval {low:.1%} to {high:.1%})")
print()
print(comparison.results.verdict)

# %%
show(greffon.accuracy_figure(comparison.results))

# %% [markdown]
# **Question 7.** Read the intervals. What may you claim, and what would you need to claim more?
#
# <details><summary>Answer</summary>
#
# Only what the verdict says. Where the interval of a difference holds zero, the two cannot be told apart with this
# many test texts and this many seeds: more of both would narrow it. A minute of pretraining is very little, and a
# second of TF-IDF is a baseline that many published models would not have passed.
#
# </details>
#
# **Question 8.** A causal body reads a text from left to right. Which of its tokens have seen the whole text, and what
# does that mean for a classifier?
#
# <details><summary>Answer</summary>
#
# Only the last one. A head that reads the first token of a causal body (as BERT's head reads `[CLS]`) would know
# nothing; it must read the last one, or a mean of all.
#
# </details>

# %%
show(greffon.embeddings_figure(masked, FOLDER / "valid.csv"))

# %% [markdown]
# ## 10. Translation
#
# An encoder reads the source both ways; a decoder writes the target from left to right and looks at the source. The
# sentences are footnotes of statistical tables, English and French.

# %%
pairs = greffon.demo_translation_data(FOLDER / "pairs")
settings = {
    "source": pairs / "train.en.txt",
    "target": pairs / "train.fr.txt",
    "valid_source": pairs / "valid.en.txt",
    "valid_target": pairs / "valid.fr.txt",
    "vocab_size": 2000,
    "steps": TRANSLATION_STEPS,
    "layers": 2,
    "hidden_size": 96,
    "intermediate_size": 192,
    "batch_tokens": 1024,
    "dropout": 0.1,
    "quiet": True,
}
translator = trained("translator", lambda out: greffon.pretrain(objective="seq2seq", out=out, **settings))
sentence = "The data are not available for 2011."
for made in greffon.translate_best(translator, sentence, n_best=3)[0]:
    print(f"{made.score:6.2f}  {made.translation}")

# %% [markdown]
# **Question 9.** In training the decoder sees the whole French sentence at once; in use it has only what it has
# written so far. Why do both give the same states?
#
# <details><summary>Answer</summary>
#
# Because of the square mask: position 3 never saw anything later, so it does not matter whether anything later is
# there. Training can then work on all positions at the same time, which recurrent networks could not.
#
# </details>

# %% [markdown]
# ## 11. What heads look at

# %%
show(greffon.attention_figure(causal, "the movie is not bad , but the actors are terrible .", layer=2))
seen = greffon.attention(causal, "the movie is not bad , but the actors are terrible .")
for habits in seen.habits():
    print(
        f"layer {habits.layer}, head {habits.head}: {habits.distance:.1f} tokens away, {habits.entropy:.1f} bits, "
        f"{habits.previous:.0%} on the previous token, {habits.first:.0%} on the first, {habits.itself:.0%} on itself"
    )

# %%
show(greffon.attention_figure(translator, sentence, "Les données ne sont pas disponibles pour 2011.", layer=2))

# %% [markdown]
# **Question 10.** Why several heads? Is there one that looks at the previous token, one that looks far? In the
# translator, where does each word of the target look?
#
# <details><summary>Answer</summary>
#
# One head is one weighted mean: it cannot look at the previous token *and* at the subject of the sentence and keep the
# two apart. Several can, each with features of its own. In a translator that has learned enough, the words of the
# target look at the words that they translate; after a minute of training you see the beginning of it. And be careful:
# what a head looks at is not yet *why* the model decides.
#
# </details>

# %% [markdown]
# ## 12. What attention costs, and how far it reaches

# %%
show(greffon.complexity_figure(quick=SHORT))

# %%
show(greffon.extrapolation_figure([causal, masked]))

# %% [markdown]
# **Question 11.** For which lengths is attention cheaper than recurrence? And why does the loss not simply go on
# falling to the right of the dashed line?
#
# <details><summary>Answer</summary>
#
# Attention costs n² d, recurrence n d²: attention is cheaper while a text is shorter than the width of its
# vectors, and it needs no loop over positions. Beyond the trained length, positions and distances come that
# no query or key has ever met in training; how a body bears that depends on its encoding.
#
# </details>
