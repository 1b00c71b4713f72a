"""From bytes to tokens: pages, groups and blocks of the KV cache, exactly as vLLM counts them.

Sources: vLLM 0.32 v1/kv_cache_interface.py (pages, needs), v1/core/kv_cache_utils.py (groups, blocks, printed size) and
platforms/interface.py (block sizes of hybrid models); what older versions did otherwise is in `versions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from wizard.planning.facts import LayerKind, ModelFacts, Recurrent
from wizard.planning.versions import Version, rule

PageKind = Literal["full", "latent", "sliding", "chunked", "recurrent", "indexer"]

DTYPE_BYTES = {"float32": 4.0, "float": 4.0, "bfloat16": 2.0, "float16": 2.0, "half": 2.0, "float8_e4m3fn": 1.0}

# Bytes of a latent entry that packs scales and rotary part beside the values; model_executor/layers/attention/
# mla_attention.py of vLLM 0.32.
_PACKED_LATENT = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}


@dataclass(frozen=True, slots=True)
class CacheSetup:
    """How the cache is laid out. kv_cache_dtype: vLLM's word ("auto", "fp8", ...); model_dtype: of activations.

    base_block: tokens a block before hybrid models enlarge it (16 on CUDA, 128 on CPU). in_flight_tokens: scheduled but
    not settled. draft_layers: of full attention, that propose tokens. grouping: False where
    `--disable-hybrid-kv-cache-manager` is set. prefix_caching: None for the default.
    """

    version: Version
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    context_parallel: int = 1
    kv_cache_dtype: str = "auto"
    model_dtype: str = "bfloat16"
    base_block: int = 16
    in_flight_tokens: int = 2048
    grouping: bool = True
    prefix_caching: bool | None = None
    speculative_tokens: int = 0
    draft_layers: int = 0
    # Recurrent states in float32 whatever the model says: CPUs with bfloat16 in AVX-512 (vLLM 0.32 platforms/cpu.py).
    wide_states: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """The cache of one layer for one block. size: bytes. window: tokens that sliding or chunked layers look back."""

    kind: PageKind
    block: int
    size: int
    window: int = 0
    kept_states: int = 1


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share block numbers: their indices, and one page size for each."""

    page: Page
    layers: tuple[int, ...]
    page_sizes: tuple[int, ...]


def cdiv(a: int, b: int) -> int:
    """Division rounded up."""
    return -(-a // b)


def element_bytes(dtype: str) -> float:
    """Bytes of one element of a torch dtype's name; 2 for what is unknown."""
    return DTYPE_BYTES.get(dtype, 2.0)


def kv_cell_bytes(head_dim: int, kv_cache_dtype: str, model_dtype: str) -> float:
    """Bytes that one head keeps of one token, keys or values alone.

    vLLM 0.32 v1/kv_cache_interface.py KVQuantMode: fp8 one byte; per-token-head modes with a 4-byte scale; nvfp4 half a
    byte with a scale byte for 16 values.
    """
    if kv_cache_dtype.startswith("nvfp4"):
        return head_dim / 2 + head_dim / 16
    if kv_cache_dtype in ("int8_per_token_head", "fp8_per_token_head"):
        return head_dim + 4
    if kv_cache_dtype == "int4_per_token_head":
        return head_dim / 2 + 4
    if kv_cache_dtype.startswith("fp8"):
        return head_dim
    return head_dim * element_bytes(model_dtype if kv_cache_dtype == "auto" else kv_cache_dtype)


def resolved_kv_dtype(facts: ModelFacts, kv_cache_dtype: str) -> str:
    """What "auto" means for this checkpoint: fp8 where it brings scales for its cache."""
    if kv_cache_dtype != "auto":
        if kv_cache_dtype.startswith("fp8") and facts.indexer_head_dim:
            return "fp8_ds_mla"
        return kv_cache_dtype
    return facts.quantization.kv_cache_dtype or "auto" if facts.quantization else "auto"


def recurrent_state_bytes(state: Recurrent, setup: CacheSetup, default_dtype: str) -> int:
    """Bytes of one recurrent layer's state for one request on one rank.

    vLLM 0.32 model_executor/layers/mamba/mamba_utils.py MambaStateShapeCalculator and MambaStateDtypeCalculator.
    """
    tp = setup.tensor_parallel
    conv_bytes = element_bytes(setup.model_dtype)
    state_bytes = element_bytes(default_dtype if state.state_dtype == "auto" else state.state_dtype)
    if setup.wide_states:
        state_bytes = 4
    kernel = state.conv_kernel - 1 + setup.speculative_tokens
    match state.kind:
        case "gated-delta-net":
            conv = (2 * state.key_heads * state.key_dim + state.value_heads * state.value_dim) // tp * kernel
            temporal = state.value_heads // tp * state.value_dim * state.key_dim
        case "kimi-delta":
            conv = (2 * state.key_heads * state.key_dim + state.value_heads * state.value_dim) // tp * kernel
            temporal = state.value_heads // tp * state.value_dim * state.value_dim
        case "mamba2":
            groups = state.groups if state.groups % tp == 0 else state.groups + tp - state.groups
            conv = (state.intermediate + 2 * groups * state.state_size) // tp * kernel
            temporal = state.value_heads // tp * state.value_dim * state.state_size
        case "mamba1":
            conv = state.intermediate // tp * (state.conv_kernel - 1)
            temporal = state.intermediate // tp * state.state_size
        case "short-conv":
            return int(state.intermediate // tp * kernel * conv_bytes)
        case "lightning":
            return int(state.value_heads // tp * state.value_dim * state.value_dim * state_bytes)
    return int(conv * conv_bytes + temporal * state_bytes)


def _state_dtype(facts: ModelFacts, setup: CacheSetup) -> str:
    """The dtype of a recurrent state that the model leaves open.

    vLLM 0.32 model_executor/models/config.py: float32 for Nemotron-H; mamba_utils.kda_state_dtype: float32 for KDA;
    otherwise the model's own dtype.
    """
    if facts.architecture.startswith("NemotronH") or (facts.recurrent and facts.recurrent.kind == "kimi-delta"):
        return "float32"
    return setup.model_dtype


def attention_page(facts: ModelFacts, setup: CacheSetup, kind: LayerKind, block: int) -> Page:
    """The page of one attention layer."""
    dtype = resolved_kv_dtype(facts, setup.kv_cache_dtype)
    if facts.is_mla:
        per_token = _PACKED_LATENT.get(dtype) or kv_cell_bytes(
            facts.kv_lora_rank + facts.qk_rope_head_dim, dtype, setup.model_dtype
        )
        return Page("latent", block, int(block * per_token))
    heads, key_dim, value_dim = facts.kv_shape(kind)
    heads = max(1, heads // setup.tensor_parallel)
    per_token = heads * (
        kv_cell_bytes(key_dim, dtype, setup.model_dtype) + kv_cell_bytes(value_dim, dtype, setup.model_dtype)
    )
    window = {"sliding": facts.sliding_window, "chunked": facts.chunk_size}.get(kind, 0)
    page_kind: PageKind = "sliding" if kind == "sliding" else "chunked" if kind == "chunked" else "full"
    return Page(page_kind, block, int(block * per_token), window)


def block_tokens(facts: ModelFacts, setup: CacheSetup) -> int:
    """Tokens a block: the base, or for hybrids so many that an attention page holds a recurrent state.

    vLLM 0.32 platforms/interface.py `_align_hybrid_block_size`; 0.10.2 model_executor/models/config.py (16 there).
    """
    if not (facts.is_hybrid and facts.recurrent) or "full" not in facts.layer_kinds:
        return setup.base_block
    state = recurrent_state_bytes(facts.recurrent, setup, _state_dtype(facts, setup))
    one_token = attention_page(facts, setup, "full", 1).size
    align = max(setup.base_block, 128) if facts.is_mla else setup.base_block
    return max(setup.base_block, align * cdiv(state, align * one_token))


def layer_pages(facts: ModelFacts, setup: CacheSetup) -> tuple[tuple[Page, ...], ...]:
    """The pages of each layer (none for one without a cache; two for sparse latent attention and its indexer)."""
    block = block_tokens(facts, setup)
    kept = int(rule(setup.version, "recurrent-states"))
    if setup.prefix_caching is not None:
        kept = 2 if setup.prefix_caching else 1
    if kept == 2 and facts.recurrent and facts.recurrent.kind == "mamba2":
        kept += int(rule(setup.version, "mamba2-checkpoint"))
    state_page = 0
    if facts.is_hybrid and facts.recurrent:
        state_page = recurrent_state_bytes(facts.recurrent, setup, _state_dtype(facts, setup))
        if "full" in facts.layer_kinds:
            state_page = max(state_page, attention_page(facts, setup, "full", block).size)
    pages: list[tuple[Page, ...]] = []
    own_cache = facts.layers - facts.shared_kv_layers
    for index, kind in enumerate(facts.layer_kinds):
        if kind == "none" or index >= own_cache:
            pages.append(())
        elif kind == "recurrent":
            pages.append((Page("recurrent", block, state_page, kept_states=kept + setup.speculative_tokens),))
        else:
            one = attention_page(facts, setup, kind, block)
            if facts.both_in_each_layer:
                pages.append((one, Page("recurrent", block, state_page, kept_states=kept + setup.speculative_tokens)))
            elif facts.indexer_head_dim:
                # An FP8 key and one fp32 scale for 128 values; v1/attention/backends/mla/indexer.py.
                entry = facts.indexer_head_dim + 4 * cdiv(facts.indexer_head_dim, 128)
                pages.append((one, Page("indexer", block, block * entry)))
            elif facts.block_index_dim and index >= facts.layers - facts.block_index_layers:
                # A key of the model's own dtype for choosing blocks; models/minimax_m3/common/indexer.py.
                entry = int(facts.block_index_dim * element_bytes(setup.model_dtype))
                pages.append((one, Page("indexer", block, block * entry)))
            else:
                pages.append((one,))
    if setup.draft_layers and pages:
        # Layers that propose tokens join the last rank's (v1/spec_decode, `get_kv_cache_spec` of the runner).
        draft = attention_page(facts, setup, "full", block)
        pages[-1] += (draft,) * setup.draft_layers
    return tuple(pages)


def partition(layers: int, ranks: int) -> tuple[range, ...]:
    """Layers of each pipeline rank (vLLM distributed/utils.py `get_pp_indices`: the last but one take the rest)."""
    sizes = [layers // ranks] * ranks
    for extra in range(2, layers % ranks + 2):
        sizes[-extra] += 1
    starts = [sum(sizes[:rank]) for rank in range(ranks)]
    return tuple(range(start, start + size) for start, size in zip(starts, sizes, strict=True))


def _unified(pages: list[Page]) -> list[Page]:
    """Pages of one size: smaller ones take more tokens, or padding (v1/core unify_kv_cache_spec_page_size)."""
    largest = max(page.size for page in pages)
    return [
        page
        if page.size == largest
        else replace(page, block=page.block * (largest // page.size), size=largest)
        if page.kind != "recurrent" and largest % page.size == 0
        else replace(page, size=largest)
        for page in pages
    ]


def cache_groups(facts: ModelFacts, setup: CacheSetup) -> tuple[Group, ...]:
    """Groups of layers, as v1/core/kv_cache_utils.py `get_kv_cache_groups` makes them."""
    if facts.compress_ratios:
        return _compressed_groups(facts, setup)
    flat = [(index, page) for index, pages in enumerate(layer_pages(facts, setup)) for page in pages]
    if not flat:
        return ()
    indices = [index for index, _ in flat]
    pages = [page for _, page in flat]
    grouping = setup.grouping and bool(rule(setup.version, "groups"))
    if any(page.kind == "chunked" for page in pages):
        grouping = grouping and bool(rule(setup.version, "chunked-groups"))
    if not grouping and any(page.kind == "full" for page in pages):
        pages = [
            replace(page, kind="full", window=0) if page.kind in ("sliding", "chunked") else page for page in pages
        ]
    kinds = {(p.kind if p.kind not in ("latent", "indexer") else "full", p.window) for p in pages}
    if len(kinds) == 1 and len({page.block for page in pages}) == 1:
        return (Group(pages[0], tuple(indices), tuple(page.size for page in pages)),)
    buckets: dict[Page, list[int]] = {}
    for index, page in zip(indices, _unified(pages), strict=True):
        buckets.setdefault(page, []).append(index)
    smallest = min(map(len, buckets.values()))
    largest = max(map(len, buckets.values()))
    size = largest if largest < smallest * float(rule(setup.version, "group-ratio")) else smallest
    groups = []
    for page, layers in buckets.items():
        count = cdiv(len(layers), size)
        groups += [Group(page, tuple(layers[at::count]), (page.size,) * size) for at in range(count)]
    return tuple(groups)


# DeepSeek V4's pages; vLLM 0.32 models/deepseek_v4/{attention,compressor}.py, v1/attention/backends/mla/sparse_swa.py.
_V4_BLOCK = 256
_V4_WINDOW_BLOCK = 64
_V4_STATE_BYTES = 584
_V4_ALIGN = 576
# Compression: tokens of a block of its running state, and how many states overlap.
_V4_COMPRESSORS = {4: (4, 2), 128: (8, 1)}


def _compressed_groups(facts: ModelFacts, setup: CacheSetup) -> tuple[Group, ...]:
    """Groups of a model that stores one state for several tokens: its states and their index, windows of the last
    tokens, and windows of what is being compressed.

    v1/core/kv_cache_utils.py v0.32 `_get_packed_kv_cache_groups`; checked against the groups of issue 54703.
    """

    def padded(size: int) -> int:
        return cdiv(size, _V4_ALIGN) * _V4_ALIGN

    key_bytes = facts.indexer_head_dim + 4 * cdiv(facts.indexer_head_dim, 128)
    last = facts.layers - 1
    states: list[tuple[int, int]] = []
    windows = [(index, padded(_V4_WINDOW_BLOCK * _V4_STATE_BYTES)) for index in range(facts.layers)]
    windows += [(last, windows[0][1])] * setup.draft_layers
    running: dict[int, list[tuple[int, int]]] = {}
    for index, ratio in enumerate(facts.compress_ratios):
        if ratio <= 1:
            continue
        states.append((index, padded(_V4_BLOCK // ratio * _V4_STATE_BYTES)))
        block, overlap = _V4_COMPRESSORS.get(ratio, (8, 1))
        kept = running.setdefault(ratio, [])
        # Key and score of each state, fp32.
        kept.append((index, padded(block * 2 * overlap * facts.head_dim * 4)))
        if ratio == 4 and facts.indexer_head_dim:
            states.append((index, padded(_V4_BLOCK // ratio * key_bytes)))
            kept.append((index, padded(block * 2 * overlap * facts.indexer_head_dim * 4)))
    buckets = [
        (Page("full", _V4_BLOCK, 0), states),
        (Page("sliding", _V4_WINDOW_BLOCK, 0, facts.sliding_window), windows),
    ]
    for ratio, kept in running.items():
        block, overlap = _V4_COMPRESSORS.get(ratio, (8, 1))
        buckets.append((Page("sliding", block, 0, overlap * ratio), kept))
    return _packed(buckets)


def _packed(buckets: list[tuple[Page, list[tuple[int, int]]]]) -> tuple[Group, ...]:
    """Buckets of (layer, page size), split so that all groups hold about as many layers of each size."""
    counts = []
    for _, layers in buckets:
        of_size = Counter(size for _, size in layers)
        counts.append((max(of_size.values(), default=0), len(set(of_size.values())) == 1, len(of_size)))
    floor = max((most for most, balanced, sizes in counts if balanced and sizes > 1), default=0)
    repeats = _near_divisor([most for most, balanced, _ in counts if balanced], floor) if floor else 0
    groups = []
    for (page, layers), (most, balanced, _) in zip(buckets, counts, strict=True):
        parts = cdiv(most, repeats) if balanced and repeats else 1
        by_size: dict[int, list[int]] = {}
        for index, size in layers:
            by_size.setdefault(size, []).append(index)
        for at in range(parts if layers else 0):
            members = [(index, size) for size, all_of in by_size.items() for index in all_of[at::parts]]
            sizes = tuple(size for _, size in members)
            groups.append(Group(replace(page, size=max(sizes)), tuple(index for index, _ in members), sizes))
    return tuple(groups)


def _near_divisor(values: list[int], least: int) -> int:
    """The divisor from `least` on that rounds these up by the least in all, the largest of those that do
    (v1/core/kv_cache_utils.py `_approximate_gcd`)."""
    best = max(1, least)
    return min(range(best, max(values) + 1), key=lambda d: (sum(-value % d for value in values), -d), default=best)


@dataclass(frozen=True, slots=True)
class KvLayout:
    """The cache's arithmetic for one model on one machine; all counts as vLLM would print them."""

    groups: tuple[Group, ...]
    setup: CacheSetup
    ranks: tuple[range, ...]

    def block_bytes(self, rank: int = 0) -> int:
        """Bytes that one block takes on a pipeline rank: the widest group's pages there."""
        layers = self.ranks[rank]
        widest = 0
        for group in self.groups:
            if len(self.ranks) == 1:
                widest = max(widest, sum(group.page_sizes))
            else:
                widest = max(
                    widest,
                    sum(size for at, size in zip(group.layers, group.page_sizes, strict=False) if at in layers),
                )
        return widest

    def blocks(self, kv_bytes: tuple[int, ...]) -> int:
        """Blocks that fit: the least of all ranks (`kv_bytes` for each rank, or one figure for all)."""
        counts = [
            max(0, kv_bytes[min(rank, len(kv_bytes) - 1)]) // self.block_bytes(rank)
            for rank in range(len(self.ranks))
            if self.block_bytes(rank)
        ]
        return min(counts, default=0)

    def need_blocks(self, length: int) -> int:
        """Blocks that one request of `length` tokens holds at most."""
        total = 0
        for group in self.groups:
            page = group.page
            if page.kind == "sliding":
                held = min(page.window - 1 + self.setup.in_flight_tokens, length)
                total += cdiv(held, page.block) + 1
            elif page.kind == "chunked":
                total += cdiv(min(page.window + self.setup.in_flight_tokens, length), page.block)
            elif page.kind == "recurrent":
                total += page.kept_states
            else:
                total += cdiv(cdiv(length, self.setup.context_parallel), page.block)
        return total

    def concurrency(self, blocks: int, length: int) -> float:
        """Requests of full length at once."""
        need = self.need_blocks(length)
        return blocks / need if need else 0.0

    def printed_tokens(self, blocks: int, length: int) -> int:
        """The size that the start-up log prints."""
        if not self.groups:
            return 0
        if rule(self.setup.version, "printed-size") == "concurrency":
            return int(self.concurrency(blocks, length) * length)
        least = min(group.page.block for group in self.groups)
        return blocks // len(self.groups) * least * self.setup.context_parallel

    def need_bytes(self, length: int, rank: int = 0) -> int:
        """Bytes that one request of `length` needs on a rank, by this version's own check."""
        if rule(self.setup.version, "need-by-group") or len(self.groups) == 1:
            return self.block_bytes(rank) * self.need_blocks(length)
        layers = self.ranks[rank]
        total = 0
        for group in self.groups:
            alone = KvLayout((group,), self.setup, self.ranks)
            here = sum(1 for at in group.layers if at in layers)
            total += here * group.page.size * alone.need_blocks(length)
        return total

    def fits(self, kv_bytes: tuple[int, ...], length: int) -> bool:
        """Whether a request of full length fits on every rank."""
        return all(
            self.need_bytes(length, rank) <= kv_bytes[min(rank, len(kv_bytes) - 1)] - self._held_back(rank)
            for rank in range(len(self.ranks))
        )

    def longest(self, kv_bytes: tuple[int, ...], limit: int) -> int:
        """The longest request that fits, up to `limit`; 0 when not even one token does."""
        return _search(lambda length: self.fits(kv_bytes, length), limit)

    def bytes_for(self, length: int, requests: float = 1.0) -> int:
        """Bytes on the fullest rank for so many requests of full length."""
        return max(
            int(self.need_bytes(length, rank) * requests) + self._held_back(rank) for rank in range(len(self.ranks))
        )

    def _held_back(self, rank: int) -> int:
        """The null block that newer versions keep out of the check."""
        return int(rule(self.setup.version, "null-block")) * self.block_bytes(rank)


def _search(fits: Callable[[int], bool], limit: int) -> int:
    if limit < 1 or not fits(1):
        return 0
    low, high = 1, limit
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def kv_layout(facts: ModelFacts, setup: CacheSetup) -> KvLayout:
    """The layout of a model's cache."""
    return KvLayout(cache_groups(facts, setup), setup, partition(facts.layers, setup.pipeline_parallel))
