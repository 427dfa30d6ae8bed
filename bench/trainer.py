"""`transformers.Trainer` as a contestant: it trains in one go, and pauses wherever its turn ends."""

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from bench.turns import Turns


def train_in_turns(
    turns: Turns,
    model: Any,
    examples: Sequence[dict[str, Any]],
    collate: Callable[[list[dict[str, Any]]], dict[str, Any]],
    *,
    batch_size: int,
    steps: int,
    work: float,
    learning_rate: float,
    grouped: bool = False,
) -> None:
    """Train until there are no more turns; `steps` optimizer steps, which are so much work, make a turn."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Pause(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % steps == 0:
                turns.report(work)
                if not turns.wait():
                    control.should_training_stop = True

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=batch_size,
            max_steps=1_000_000,
            learning_rate=learning_rate,
            lr_scheduler_type="constant",
            use_cpu=True,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            train_sampling_strategy="group_by_length" if grouped else "random",
        )
        trainer = Trainer(
            model=model, args=arguments, train_dataset=list(examples), data_collator=collate, callbacks=[Pause()]
        )
        if turns.wait():
            trainer.train()


def gpt2(vocabulary: int, context: int, layers: int, width: int, heads: int, inner: int, **more: Any) -> Any:
    """A GPT-2 of the lab's form: pre-norm, learned positions; its head's matrix is its own, as the lab's is."""
    from transformers import GPT2Config

    return GPT2Config(
        vocab_size=vocabulary,
        n_positions=context,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        n_inner=inner,
        activation_function="relu",
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
        tie_word_embeddings=False,
        use_cache=False,
        **more,
    )
