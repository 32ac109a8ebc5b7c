"""Tiny models of Hugging Face with random weights and a tokenizer of their own, made without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

SPOKEN = ["hello world, said the river to the bridge", "öde Wörter und a b c d", "a bridge of words over a river"]
CONTEXT = 24


def tokenizer(directory: Path, *, begins: bool = False, pairs: bool = False) -> int:
    """A byte-level tokenizer beside a model; how many tokens it has. ``begins``: it puts <s> before each text;
    ``pairs``: <s> before and </s> behind."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(SPOKEN, trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=alphabet, special_tokens=["<s>", "</s>", "<pad>"], show_progress=False,
    ))  # fmt: skip
    if begins or pairs:
        form = "<s> $A </s>" if pairs else "<s> $A"
        made.post_processor = processors.TemplateProcessing(single=form, special_tokens=[("<s>", 0), ("</s>", 1)])
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    ).save_pretrained(directory)  # fmt: skip
    return made.get_vocab_size()


_SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


def language_model(directory: Path, kind: str = "llama", *, begins: bool = False, **changed: Any) -> Path:
    """A causal model of this ``kind`` in a directory; it never ends a text unless ``changed`` says so."""
    directory.mkdir(parents=True, exist_ok=True)
    words = tokenizer(directory, begins=begins)
    common = {"vocab_size": words, "bos_token_id": 0, "eos_token_id": None, "initializer_range": 0.5, **changed}
    if kind == "gpt2":
        config = transformers.GPT2Config(
            **{"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": CONTEXT, **common}
        )  # fmt: skip
        made = transformers.GPT2LMHeadModel
    elif kind == "mamba":
        config = transformers.MambaConfig(**{"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4, **common})
        made = transformers.MambaForCausalLM
    elif kind == "bloom":
        config = transformers.BloomConfig(**{"hidden_size": 16, "n_layer": 2, "n_head": 2, **common})
        made = transformers.BloomForCausalLM
    elif kind == "mistral":  # it looks back over a window of eight
        config = transformers.MistralConfig(**{**_SIZES, "max_position_embeddings": CONTEXT, "sliding_window": 8,
                                               "num_key_value_heads": 1, **common})  # fmt: skip
        made = transformers.MistralForCausalLM
    elif kind == "bert":
        config = transformers.BertConfig(**{**_SIZES, "max_position_embeddings": CONTEXT, "is_decoder": True, **common})
        made = transformers.BertLMHeadModel
    else:
        config = transformers.LlamaConfig(**{**_SIZES, "max_position_embeddings": CONTEXT, **common})
        made = transformers.LlamaForCausalLM
    return _saved(made, config, directory)


def classifier(directory: Path, kind: str = "bert", **changed: Any) -> Path:
    """A model of this ``kind`` that tells three classes of texts apart, in a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    words = tokenizer(directory, pairs=True)
    common = {**_SIZES, "vocab_size": words, "num_labels": 3, "initializer_range": 0.5,
              "max_position_embeddings": CONTEXT, **changed}  # fmt: skip
    configs = {
        "bert": transformers.BertConfig,
        "roberta": transformers.RobertaConfig,
        "llama": transformers.LlamaConfig,
    }
    made = {"bert": transformers.BertForSequenceClassification,
            "roberta": transformers.RobertaForSequenceClassification,
            "llama": transformers.LlamaForSequenceClassification}  # fmt: skip
    return _saved(made[kind], configs[kind](**common), directory)


def encoder(directory: Path, kind: str = "bert", **changed: Any) -> Path:
    """A model of this ``kind`` that embeds texts, in a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    words = tokenizer(directory, pairs=True)
    of_kind = transformers.BertConfig if kind == "bert" else transformers.RobertaConfig
    config = of_kind(**{**_SIZES, "vocab_size": words, "initializer_range": 0.5,
                        "max_position_embeddings": CONTEXT, **changed})  # fmt: skip
    return _saved(transformers.BertModel if kind == "bert" else transformers.RobertaModel, config, directory)


def _saved(made: Any, config: Any, directory: Path) -> Path:
    torch.manual_seed(1)
    made(config).save_pretrained(directory)
    return directory


def said(directory: Path, **changed: Any) -> None:
    """Its config.json says something else from now on."""
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def texts(count: int) -> list[dict[str, Any]]:
    """Texts of several lengths, some of them longer than the context."""
    words = " ".join(SPOKEN).split()
    return [{"text": " ".join(words[(n + k) % len(words)] for k in range(2 + (7 * n) % 29))} for n in range(count)]


def labelled(count: int) -> list[dict[str, Any]]:
    """The same with a label each."""
    return [{**row, "label": n % 3} for n, row in enumerate(texts(count))]
