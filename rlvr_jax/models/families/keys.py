"""The keys of a `config.json`: what each may hold, which mean nothing here, and which were read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

# Keys that say nothing about what the forward pass computes, or that only training code reads.
_HARMLESS = """
model_type architectures torch_dtype dtype transformers_version auto_map use_cache _name_or_path
bos_token_id eos_token_id pad_token_id unk_token_id initializer_range attention_dropout
resid_pdrop embd_pdrop hidden_dropout attn_implementation _attn_implementation_autoset
cache_implementation pretraining_tp max_window_layers output_router_logits router_aux_loss_coef
return_dict output_hidden_states output_attentions chunk_size_feed_forward id2label label2id
is_encoder_decoder problem_type tokenizer_class unsloth_fixed unsloth_version num_logits_to_keep
num_labels aux_loss_alpha seq_aux ep_size
"""
# What transformers 4 wrote into every config.json: defaults of generation, of classes with other
# heads, and of back ends.
_OLDER = """
assistant_confidence_threshold assistant_lookbehind bad_words_ids begin_suppress_tokens
diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size
encoder_repetition_penalty epsilon_cutoff eta_cutoff exponential_decay_length_penalty
forced_bos_token_id forced_eos_token_id length_penalty max_length min_length no_repeat_ngram_size
num_assistant_tokens num_assistant_tokens_schedule num_beam_groups num_beams num_return_sequences
output_scores remove_invalid_values repetition_penalty return_dict_in_generate suppress_tokens
target_lookbehind temperature top_k top_p typical_p
torchscript use_bfloat16 tf_legacy_loss tie_encoder_decoder is_decoder add_cross_attention
cross_attention_hidden_size finetuning_task task_specific_params prefix sep_token_id
decoder_start_token_id _commit_hash
"""
HARMLESS = frozenset((_HARMLESS + _OLDER).split())
# Keys that would change the mathematics, and the values at which they do not.
SWITCHED_OFF: dict[str, tuple[Any, ...]] = {
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "use_mrope": (False,),
    "use_sliding_window": (False,),
    "use_bidirectional_attention": (False,),
    "quantization_config": (),
    "attn_logit_softcapping": (0.0,),
    "final_logit_softcapping": (0.0,),
    "partial_rotary_factor": (1.0,),
    "mlp_only_layers": ([],),
    "decoder_sparse_step": (1,),
    "interpolate_factor": (1,),
    "full_attn_mod": (1,),
    "lm_head_bias": (False,),
    "pruned_heads": ({},),
}


def is_whole(value: Any, least: int = 0) -> bool:
    """An integer, not a truth value, of at least `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_number(value: Any) -> bool:
    """A finite number, not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


Kind = tuple[str, Callable[[Any], bool]]  # in words, and whether a value is one
_KINDS: dict[Kind, str] = {
    (
        "a positive whole number",
        lambda v: is_whole(v, 1),
    ): "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads "
    "num_key_value_heads head_dim max_position_embeddings original_max_position_embeddings "
    "sliding_window_pattern no_rope_layer_interval num_experts num_local_experts "
    "num_experts_per_tok moe_intermediate_size n_routed_experts n_shared_experts n_group "
    "topk_group kv_lora_rank q_lora_rank qk_nope_head_dim qk_rope_head_dim qk_head_dim v_head_dim",
    ("a whole number", is_whole): "sliding_window max_window_layers first_k_dense_replace "
    "num_nextn_predict_layers num_mtp_layers",
    ("a positive number", lambda v: is_number(v) and v > 0): "rope_theta rms_norm_eps "
    "rope_local_base_freq partial_rotary_factor query_pre_attn_scalar routed_scaling_factor",
    ("a number, 0 or more", lambda v: is_number(v) and v >= 0): "attn_logit_softcapping "
    "final_logit_softcapping",
    ("true or false", lambda v: isinstance(v, bool)): "attention_bias tie_word_embeddings "
    "use_sliding_window norm_topk_prob rope_interleave",
    ("a word", lambda v: isinstance(v, str)): "hidden_act hidden_activation",
    ("an object", lambda v: isinstance(v, Mapping)): "rope_parameters rope_scaling "
    "full_attention sliding_attention",
    (
        "a list of words",
        lambda v: isinstance(v, list) and all(isinstance(x, str) for x in v),
    ): "layer_types",
    (
        "a list of 0 and 1",
        lambda v: isinstance(v, list) and all(x in (0, 1) for x in v),
    ): "no_rope_layers",
}
KINDS = {name: kind for kind, names in _KINDS.items() for name in names.split()}
_REQUIRED = object()


class Keys:
    """A config.json that remembers which of its keys were read."""

    def __init__(self, data: Mapping[str, Any]):
        self.data, self.read = data, set()

    def __call__(self, name: str, default: Any = _REQUIRED) -> Any:
        """The value; `default` where the key is absent or null; ValueError if that is not given,
        or where the value is not what the key holds."""
        value = self.nullable(name, None)
        if value is None and default is _REQUIRED:
            raise ValueError(f'config.json lacks "{name}"')
        return default if value is None else value

    def nullable(self, name: str, absent: Any) -> Any:
        """The value, None where the key is null (which switches it off), `absent` where it is
        absent; ValueError where the value is not what the key holds."""
        self.read.add(name)
        value = self.data.get(name, absent)
        words, holds = KINDS.get(name, ("", lambda v: True))
        if value is not None and not holds(value):
            raise ValueError(f'"{name}" in config.json must be {words}; got {value!r}')
        return value

    def check_all_read(self) -> None:
        """ValueError naming every key whose effect would be lost."""
        bad = []
        for key, value in self.data.items():
            if key in self.read or key in HARMLESS or value is None:
                continue
            if key not in SWITCHED_OFF or value not in SWITCHED_OFF[key]:
                bad.append(f"{key}={value!r}")
        if bad:
            raise ValueError(
                f'config.json of model_type "{self.data.get("model_type")}" has keys that are not '
                f"supported: {', '.join(bad)}"
            )
