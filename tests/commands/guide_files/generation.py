"""A small GPT-2, a small T5, prompts, texts and labelled reviews."""

from pathlib import Path

SENTENCES = ["The cat sat on the mat.", "The dog lay on the rug.", "What a lovely film it was."]


def prepare(folder: Path, language: str) -> None:
    """Makes what a reader would bring along."""
    import clozeworks as cw
    from clozeworks.text.tokenizer.styles import GPT2_STYLE, T5_STYLE
    from clozeworks.text.training.train import train_from_iterator

    tokenizer = train_from_iterator(SENTENCES * 5, kind="bpe", size=330, style=GPT2_STYLE)
    cw.new("gpt2", tokenizer, n_embd=32, n_layer=1, n_head=2, n_positions=256).save(
        folder / "model"
    )
    pieces = train_from_iterator(SENTENCES * 5, kind="unigram", size=150, style=T5_STYLE)
    heads, small = ("vocabulary", "decoder"), {"d_model": 32, "d_kv": 8, "d_ff": 48}
    cw.new("t5-small", pieces, heads=heads, num_layers=1, num_heads=2, **small).save(folder / "t5")
    (folder / "prompts.txt").write_text("The cat\nThe dog\n")
    (folder / "texts.txt").write_text("\n".join(f"{one} {one} {one}" for one in SENTENCES) + "\n")
    rows = ["text,label"] + [f"a {label} film,{label}" for label in ("good", "bad")] * 5
    (folder / "reviews.csv").write_text("\n".join(rows) + "\n")


def followed(folder: Path, names: dict[str, object]) -> None:
    """What must be there in the end."""
    assert (folder / "texts.jsonl").exists() and (folder / "exposure.png").exists()
    assert len(names["several"]) == 3  # type: ignore[arg-type]
    assert names["last"].shape == (2, 32) and names["mean"].shape == (32,)  # type: ignore[attr-defined]
