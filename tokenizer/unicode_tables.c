#include "tokenizer/unicode_tables.h"

#include "tokenizer/unicode_tables.inc"
