//! The table of the providers that are known by name, in the order in which `setup` lists them and a key without a configuration
//! chooses one. Addresses and variables are from the providers' own pages (2026-11). It is code, not a file that is parsed: every
//! command needs it to find the model that answers.

use super::ProviderPreset;
use crate::endpoint::Api;

/// What most providers have in common.
const OPENAI_COMPATIBLE: ProviderPreset = ProviderPreset {
    name: "",
    title: "",
    api: Api::OpenAiChat,
    base_url: None,
    example: None,
    key: None,
    keys_at: None,
    model: None,
    structured_output: false,
    older: &[],
};

/// How the names of OpenAI's models begin that take no schema.
const OLDER_OPENAI: &[&str] = &["gpt-3", "gpt-4-", "gpt-4o-2024-05", "gpt-5-chat", "chatgpt-", "o1-mini", "o1-preview"];

pub(super) const PROVIDERS: &[ProviderPreset] = &[
    ProviderPreset {
        name: "openai",
        title: "OpenAI",
        base_url: Some("https://api.openai.com/v1"),
        key: Some("OPENAI_API_KEY"),
        keys_at: Some("https://platform.openai.com/api-keys"),
        model: Some("gpt-5.4-mini"),
        structured_output: true,
        older: OLDER_OPENAI,
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "openai-responses",
        title: "OpenAI (Responses API)",
        api: Api::OpenAiResponses,
        base_url: Some("https://api.openai.com/v1"),
        key: Some("OPENAI_API_KEY"),
        keys_at: Some("https://platform.openai.com/api-keys"),
        structured_output: true,
        older: OLDER_OPENAI,
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "anthropic",
        title: "Anthropic",
        api: Api::Anthropic,
        base_url: Some("https://api.anthropic.com/v1"),
        key: Some("ANTHROPIC_API_KEY"),
        keys_at: Some("https://platform.claude.com/settings/keys"),
        model: Some("claude-sonnet-5"),
        structured_output: true,
        older: &[
            "claude-2",
            "claude-3",
            "claude-instant",
            "claude-opus-4-0",
            "claude-opus-4-1",
            "claude-opus-4-2",
            "claude-sonnet-4-0",
            "claude-sonnet-4-2",
        ],
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "gemini",
        title: "Google Gemini",
        api: Api::Gemini,
        base_url: Some("https://generativelanguage.googleapis.com/v1beta"),
        key: Some("GEMINI_API_KEY"),
        keys_at: Some("https://aistudio.google.com/apikey"),
        model: Some("gemini-3.5-flash"),
        structured_output: true,
        older: &["gemini-1", "gemini-2", "gemma", "learnlm"],
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "openrouter",
        title: "OpenRouter",
        base_url: Some("https://openrouter.ai/api/v1"),
        key: Some("OPENROUTER_API_KEY"),
        keys_at: Some("https://openrouter.ai/settings/keys"),
        model: Some("z-ai/glm-5.3"),
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "deepseek",
        title: "DeepSeek",
        base_url: Some("https://api.deepseek.com"),
        key: Some("DEEPSEEK_API_KEY"),
        keys_at: Some("https://platform.deepseek.com/api_keys"),
        model: Some("deepseek-v4-flash"),
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "groq",
        title: "Groq",
        base_url: Some("https://api.groq.com/openai/v1"),
        key: Some("GROQ_API_KEY"),
        keys_at: Some("https://console.groq.com/keys"),
        model: Some("openai/gpt-oss-120b"),
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "mistral",
        title: "Mistral",
        base_url: Some("https://api.mistral.ai/v1"),
        key: Some("MISTRAL_API_KEY"),
        keys_at: Some("https://console.mistral.ai/api-keys"),
        model: Some("mistral-medium-latest"),
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "xai",
        title: "xAI",
        base_url: Some("https://api.x.ai/v1"),
        key: Some("XAI_API_KEY"),
        keys_at: Some("https://console.x.ai"),
        model: Some("grok-4.7"),
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "together",
        title: "Together AI",
        base_url: Some("https://api.together.ai/v1"),
        key: Some("TOGETHER_API_KEY"),
        keys_at: Some("https://api.together.ai/settings/api-keys"),
        model: Some("zai-org/GLM-5.3"),
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "fireworks",
        title: "Fireworks AI",
        base_url: Some("https://api.fireworks.ai/inference/v1"),
        key: Some("FIREWORKS_API_KEY"),
        keys_at: Some("https://app.fireworks.ai/settings/users/api-keys"),
        model: Some("accounts/fireworks/models/glm-5p3"),
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "moonshot",
        title: "Moonshot AI (Kimi)",
        base_url: Some("https://api.moonshot.ai/v1"),
        key: Some("MOONSHOT_API_KEY"),
        keys_at: Some("https://platform.kimi.ai"),
        model: Some("kimi-k3.1-pro"),
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "qwen",
        title: "Qwen (Alibaba DashScope)",
        base_url: Some("https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
        key: Some("DASHSCOPE_API_KEY"),
        keys_at: Some("https://modelstudio.console.alibabacloud.com"),
        model: Some("qwen3.8-max"),
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "zhipu",
        title: "Zhipu (Z.AI, GLM)",
        base_url: Some("https://api.z.ai/api/paas/v4"),
        key: Some("ZAI_API_KEY"),
        keys_at: Some("https://z.ai/manage-apikey/apikey-list"),
        model: Some("glm-5.3"),
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "minimax",
        title: "MiniMax",
        base_url: Some("https://api.minimax.io/v1"),
        key: Some("MINIMAX_API_KEY"),
        keys_at: Some("https://platform.minimax.io"),
        model: Some("MiniMax-M3"),
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "azure",
        title: "Azure OpenAI",
        example: Some("https://RESOURCE.openai.azure.com/openai/v1"),
        key: Some("AZURE_OPENAI_API_KEY"),
        keys_at: Some("https://ai.azure.com"),
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "bedrock",
        title: "Amazon Bedrock, or a gateway to it",
        example: Some("https://bedrock-mantle.REGION.api.aws/v1"),
        key: Some("AWS_BEARER_TOKEN_BEDROCK"),
        keys_at: Some("https://console.aws.amazon.com/bedrock"),
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "ollama",
        title: "Ollama",
        api: Api::Ollama,
        base_url: Some("http://127.0.0.1:11434"),
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset { name: "vllm", title: "vLLM", base_url: Some("http://127.0.0.1:8000/v1"), ..OPENAI_COMPATIBLE },
    ProviderPreset {
        name: "lmstudio",
        title: "LM Studio",
        base_url: Some("http://127.0.0.1:1234/v1"),
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "llamacpp",
        title: "llama.cpp",
        base_url: Some("http://127.0.0.1:8080/v1"),
        ..OPENAI_COMPATIBLE
    },
    ProviderPreset {
        name: "custom",
        title: "Any OpenAI-compatible address",
        example: Some("http://127.0.0.1:8000/v1"),
        ..OPENAI_COMPATIBLE
    },
];
