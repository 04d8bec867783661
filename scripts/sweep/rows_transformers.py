"""transformers: configs of each model type made small (`SMALL` in build.py); rows give what that does not
cover. Weights are random, nothing is downloaded."""

from rows import Row

PLAIN = """
bert gpt2 roberta albert distilbert electra deberta deberta-v2 xlnet mpnet longformer big_bird funnel camembert gpt_neo
gpt_neox gptj opt bloom llama mistral mixtral qwen2 gemma phi falcon mpt codegen t5 mt5 bart mbart pegasus marian
blenderbot led whisper wav2vec2 hubert vit deit beit swin swinv2 convnext convnextv2 segformer dpt clip siglip blip
mamba rwkv xlm-roberta modernbert convbert fnet nystromformer mobilebert squeezebert roformer rembert ernie layoutlm
gemma2 gemma3_text gemma3n_text gemma4_text llama4_text qwen3 qwen3_moe qwen2_moe qwen3_next phi3 phimoe olmo olmo2
olmo3 olmoe cohere cohere2 starcoder2 stablelm gpt_bigcode granite granitemoe nemotron persimmon deepseek_v2 deepseek_v3
glm glm4 glm4_moe gpt_oss smollm3 ernie4_5 hunyuan_v1_dense minimax mamba2 falcon_mamba jamba bamba recurrent_gemma lfm2
xlstm diffllama biogpt ctrl openai-gpt xglm switch_transformers longt5 umt5 m2m_100 nllb-moe bigbird_pegasus pegasus_x
plbart prophetnet blenderbot-small fsmt t5gemma speech_to_text moonshine wav2vec2-bert wav2vec2-conformer wavlm
unispeech unispeech-sat sew sew-d data2vec-audio data2vec-text data2vec-vision audio-spectrogram-transformer encodec dac
mimi vits parakeet_ctc vit_mae vit_msn dinov2 dinov2_with_registers dinov3_vit dinov3_convnext bit resnet regnet
efficientnet mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2 poolformer pvt pvt_v2 cvt levit hiera focalnet swiftformer
textnet hgnet_v2 ijepa imagegpt donut-swin swin2sr glpn zoedepth upernet detr conditional_detr deformable_detr rt_detr
yolos mask2former maskformer owlvit vitdet videomae timesformer vivit vjepa2 altclip chinese_clip clipseg groupvit flava
vilt git trocr layoutlmv3 lilt canine markuplm tapas luke splinter megatron-bert roc_bert xlm xmod flaubert ibert yoso
mra esm gte nomic_bert eurobert jina_embeddings_v3 patchtst patchtsmixer dpr visual_bert mgp-str apertus arcee bitnet
doge dots1 exaone4 flex_olmo helium jetmoe ministral seed_oss vaultgemma olmo_hybrid kimi_linear nanochat hrm_text
falcon_h1 granitemoehybrid deepseek_v32 minicpm3
"""
AUDIO = {
    "conv_dim": (16, 16),
    "conv_stride": (5, 4),
    "conv_kernel": (10, 8),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "vocab_size": 61,
}
STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "leave": "num_hidden_layers num_layers"}
MLA = {
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "num_experts_per_tok": 2,
    "v_head_dim": 8,
    "head_dim": 8,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "n_shared_experts": 1,
}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 4}
WINDOWS = {"embed_dim": 16, "depths": [2, 1], "num_heads": [2, 4], "window_size": 2, "leave": "num_layers hidden_size"}
OPTIONS: dict = {  # "leave": keys of SMALL that this config cannot take
    "xlnet": {"leave": "max_position_embeddings n_positions"},
    "funnel": {"leave": "num_hidden_layers", "block_sizes": [1, 1], "d_model": 32},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2, "window_size": 4},
    "falcon": {"leave": "head_dim"},
    "wav2vec2": AUDIO,
    "hubert": AUDIO,
    "wavlm": AUDIO,
    "unispeech": AUDIO,
    "unispeech-sat": AUDIO,
    "data2vec-audio": AUDIO,
    "sew": {**AUDIO, "squeeze_factor": 2},
    "sew-d": {**AUDIO, "squeeze_factor": 2},
    "wav2vec2-conformer": AUDIO,
    "wav2vec2-bert": {"feature_projection_input_dim": 16, "vocab_size": 61},
    "swin": WINDOWS,
    "swinv2": WINDOWS,
    "donut-swin": WINDOWS,
    "convnext": STAGES,
    "convnextv2": STAGES,
    "dinov3_convnext": STAGES,
    "dpt": {
        "num_hidden_layers": 4,
        "backbone_out_indices": [0, 1, 2, 3],
        "neck_hidden_sizes": [8, 8, 8, 8],
        "fusion_hidden_size": 8,
    },
    "squeezebert": {"embedding_size": 32},
    "nemotron": {"num_key_value_heads": 2},
    "deepseek_v2": MLA,
    "deepseek_v3": MLA,
    "mamba2": {"num_heads": 8, "head_dim": 8, "n_groups": 2, "state_size": 8, "chunk_size": 4},
    "bamba": {**MAMBA, "attn_layer_indices": [1]},
    "prophetnet": {"leave": "num_hidden_layers"},
    "speech_to_text": {"input_feat_per_channel": 16, "conv_channels": 16},
    "audio-spectrogram-transformer": {"max_length": 32, "num_mel_bins": 16, "frequency_stride": 4, "time_stride": 4},
    "encodec": {
        "upsampling_ratios": [4, 2],
        "num_filters": 4,
        "hidden_size": 16,
        "codebook_size": 8,
        "codebook_dim": 16,
    },
    "dac": {
        "encoder_hidden_size": 8,
        "downsampling_ratios": [2, 4],
        "decoder_hidden_size": 16,
        "upsampling_ratios": [4, 2],
        "codebook_size": 8,
    },
    "bit": {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "num_groups": 4},
    "mobilevitv2": {"image_size": 64, "leave": "patch_size"},
    "mobilevit": {"image_size": 64},
    "pvt": {"image_size": 64},
    "efficientnet": {"leave": "hidden_dim"},
    "levit": {"leave": "image_size patch_size"},
    "yolos": {"image_size": [16, 16]},
    "swin2sr": {
        "embed_dim": 32,
        "depths": [2, 1],
        "num_heads": [2, 4],
        "window_size": 4,
        "leave": "num_layers patch_size",
    },
    "rt_detr": {"num_queries": 10},
    "deepseek_v32": MLA,
    "minicpm3": MLA,
    "granitemoehybrid": MAMBA,
    "videomae": {"num_frames": 2},
    "timesformer": {"num_frames": 2},
    "vivit": {"num_frames": 2, "tubelet_size": [2, 4, 4]},
    "vjepa2": {"frames_per_clip": 2, "crop_size": 16},
    "layoutlmv3": {"coordinate_size": 5, "shape_size": 6, "input_size": 64},
    "lilt": {"hidden_size": 48},
    "xmod": {"default_language": "en_XX"},
    "esm": {"vocab_size": 61, "pad_token_id": 1},
    "patchtst": {"context_length": 32, "patch_length": 4, "patch_stride": 4, "num_input_channels": 2},
    "patchtsmixer": {"context_length": 32, "patch_length": 4, "patch_stride": 4, "num_input_channels": 2},
    "hunyuan_v1_dense": {"head_dim": 8},
    "ministral": {"head_dim": 8},
    "mimi": {"leave": "num_codebooks", "upsample_groups": 32},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1},
    "gemma4_text": {"vocab_size_per_layer_input": 61, "hidden_size_per_layer_input": 8, "global_head_dim": 8},
    "gemma3n_text": {
        "vocab_size_per_layer_input": 61,
        "hidden_size_per_layer_input": 8,
        "num_kv_shared_layers": 0,
        "activation_sparsity_pattern": None,
    },
}
SIZES: dict = {
    **{
        name: (400,)
        for name in ("wav2vec2", "hubert", "wavlm", "unispeech", "unispeech-sat", "data2vec-audio", "sew", "sew-d")
    },
    "moonshine": (4000,),
    "speech_to_text": (20, 16),
    "wav2vec2-bert": (12, 16),
    "wav2vec2-conformer": (400,),
    "audio-spectrogram-transformer": (32, 16),
    "encodec": (1, 320),
    "dac": (1, 320),
    "mimi": (1, 1920),
    "swin": (16, 16),
    "dinov3_convnext": (64, 64),
    "efficientnet": (96, 96),
    "mobilevitv2": (64, 64),
    "mobilevit": (64, 64),
    "pvt": (64, 64),
    "levit": (224, 224),
    "parakeet_ctc": (40, 16),
    "videomae": (2, 16, 16),
    "timesformer": (2, 16, 16),
    "vivit": (2, 16, 16),
    "vjepa2": (2, 3, 16, 16),
    "flava": (16, 16),
    "patchtst": (32, 2),
    "patchtsmixer": (32, 2),
    "yolos": (16, 16),
    "whisper": (16, 32),
    "convnext": (32, 32),
    "convnextv2": (32, 32),
}
FEEDS: dict = {}
MODELS: dict = {"deit": "DeiTForImageClassification", "levit": "LevitForImageClassification"}
ROWS = [
    Row("transformers", name, MODELS.get(name, ""), SIZES.get(name, (64,)), OPTIONS.get(name, {}), FEEDS.get(name, ""))
    for name in PLAIN.split()
]
