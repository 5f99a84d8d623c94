"""Text to token ids and back, on the host.  Nothing here imports jax.

Read `char` (the built-in tokenizer), then `encode` (prompts, completions, stop ids).
"""

from rlvr_jax.text.char import char_tokenizer as char_tokenizer
from rlvr_jax.text.encode import TEMPLATES as TEMPLATES
from rlvr_jax.text.encode import PromptFormat as PromptFormat
from rlvr_jax.text.encode import decode as decode
from rlvr_jax.text.encode import encode_answered as encode_answered
from rlvr_jax.text.encode import encode_completion as encode_completion
from rlvr_jax.text.encode import encode_prompt as encode_prompt
from rlvr_jax.text.encode import encode_prompts as encode_prompts
from rlvr_jax.text.load import end_id as end_id
from rlvr_jax.text.load import generation_config as generation_config
from rlvr_jax.text.load import load_tokenizer as load_tokenizer
from rlvr_jax.text.load import ordinary_size as ordinary_size
from rlvr_jax.text.load import pad_id as pad_id
from rlvr_jax.text.load import stop_ids as stop_ids
from rlvr_jax.text.unknown import name_characters as name_characters
from rlvr_jax.text.unknown import unknown_characters as unknown_characters
from rlvr_jax.text.unknown import unknown_id as unknown_id
