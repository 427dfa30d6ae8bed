"""A mistake is told in one sentence, in the words of its reader."""

import pickle

from greffon.core.errors import UserError, out_of_range, setting


def test_a_setting_is_named_as_its_reader_wrote_it() -> None:
    mistake = UserError(f"{setting('top_k')} has no effect with {setting('tie_embeddings', False)} in a--b.txt")
    assert str(mistake) == "top_k has no effect with tie_embeddings=False in a--b.txt"
    assert mistake.on_command_line() == "--top-k has no effect with --tie-embeddings false in a--b.txt"


def test_an_error_keeps_its_settings_on_the_way_from_another_process() -> None:
    mistake = pickle.loads(pickle.dumps(out_of_range("batch_size", 0, "choose 1 or more")))
    assert str(mistake) == "batch_size is 0; choose 1 or more"
    assert mistake.on_command_line() == "--batch-size is 0; choose 1 or more"


def test_a_sentence_stays_on_one_line() -> None:
    mistake = UserError(f"no file\n'a\u2028b' for {setting('out')}")
    assert mistake.on_command_line() == "no file 'a b' for --out"
    assert len(str(mistake).splitlines()) == 1
