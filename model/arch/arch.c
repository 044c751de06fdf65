#include "model/arch/arch.h"

const struct lf_arch *const lf_archs[] = {&lf_arch_llama,       &lf_arch_mistral,    &lf_arch_mistral3,
                                          &lf_arch_mixtral,     &lf_arch_qwen2,      &lf_arch_qwen3,
                                          &lf_arch_qwen3_moe,   &lf_arch_phi3,       &lf_arch_smollm3,
                                          &lf_arch_olmo2,       &lf_arch_olmo3,      &lf_arch_glm4,
                                          &lf_arch_granite,     &lf_arch_ministral3, &lf_arch_mistral3_ministral3,
                                          &lf_arch_gemma3_text, &lf_arch_gemma3,     NULL};
