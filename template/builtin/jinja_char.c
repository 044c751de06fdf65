#include "template/builtin/jinja_char.h"

#include "core/check.h"

bool lf_jinja_is_space(uint32_t cp)
{
    if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x1f);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

bool lf_jinja_is_line_end(uint32_t cp)
{
    return (cp >= 10 && cp <= 13) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

bool lf_jinja_is_digit(uint32_t cp)
{
    if (cp < 0x80) return cp >= '0' && cp <= '9';
    return cp == 0xb2 || cp == 0xb3 || cp == 0xb9 || (cp >= 0x660 && cp <= 0x669) || (cp >= 0x6f0 && cp <= 0x6f9) ||
           (cp >= 0x966 && cp <= 0x96f) || (cp >= 0xff10 && cp <= 0xff19);
}

struct range {
    uint32_t first, last;
};

static bool in_ranges(const struct range *ranges, size_t n, uint32_t cp)
{
    for (size_t i = 0; i < n; i++) {
        if (cp >= ranges[i].first && cp <= ranges[i].last) return true;
    }
    return false;
}

bool lf_jinja_is_alpha(uint32_t cp)
{
    /* What is not a letter above ASCII: punctuation, symbols, marks, private use. */
    static const struct range others[] = {
        {0x80, 0xa9},     {0xab, 0xb4},     {0xb6, 0xb9},       {0xbb, 0xbf},        {0xd7, 0xd7},     {0xf7, 0xf7},
        {0x2c2, 0x2c5},   {0x2d2, 0x2df},   {0x300, 0x36f},     {0x37e, 0x37e},      {0x387, 0x387},   {0x483, 0x489},
        {0x55a, 0x55f},   {0x589, 0x5cf},   {0x600, 0x61f},     {0x64b, 0x66d},      {0x6d4, 0x6d4},   {0x6f0, 0x6f9},
        {0x964, 0x96f},   {0x2000, 0x2070}, {0x2072, 0x207e},   {0x2080, 0x208f},    {0x20a0, 0x2101}, {0x2190, 0x2bff},
        {0x3000, 0x3004}, {0x3007, 0x3030}, {0xd800, 0xf8ff},   {0xfe00, 0xfe6f},    {0xff00, 0xff20}, {0xff3b, 0xff40},
        {0xff5b, 0xff65}, {0xffe0, 0xffff}, {0x1f000, 0x1faff}, {0xe0000, 0x10ffff},
    };
    if (cp < 0x80) return (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z');
    return !in_ranges(others, LF_N_ELEMS(others), cp);
}

bool lf_jinja_is_printable(uint32_t cp)
{
    static const struct range hidden[] = {
        {0x7f, 0xa0},     {0xad, 0xad},     {0x600, 0x605},   {0x61c, 0x61c},   {0x6dd, 0x6dd},     {0x70f, 0x70f},
        {0x1680, 0x1680}, {0x180e, 0x180e}, {0x2000, 0x200f}, {0x2028, 0x202f}, {0x205f, 0x206f},   {0x3000, 0x3000},
        {0xd800, 0xf8ff}, {0xfeff, 0xfeff}, {0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, 0xe00ff}, {0xf0000, 0x10ffff},
    };
    return cp >= 0x20 && !in_ranges(hidden, LF_N_ELEMS(hidden), cp);
}

/* Upper-case letters and how far down (or up) their lower case lies; step 2: every second one, its lower case next. */
static const struct {
    uint16_t first, last;
    int16_t delta;
    uint8_t step;
} cases[] = {
    {0xc0, 0xd6, 32, 1},   {0xd8, 0xde, 32, 1},    {0x100, 0x12e, 1, 2},    {0x132, 0x136, 1, 2},
    {0x139, 0x147, 1, 2},  {0x14a, 0x176, 1, 2},   {0x178, 0x178, -121, 1}, {0x179, 0x17d, 1, 2},
    {0x182, 0x184, 1, 2},  {0x187, 0x187, 1, 1},   {0x18b, 0x18b, 1, 1},    {0x191, 0x191, 1, 1},
    {0x198, 0x198, 1, 1},  {0x1a0, 0x1a4, 1, 2},   {0x1a7, 0x1a7, 1, 1},    {0x1ac, 0x1ac, 1, 1},
    {0x1af, 0x1af, 1, 1},  {0x1b3, 0x1b5, 1, 2},   {0x1b8, 0x1b8, 1, 1},    {0x1bc, 0x1bc, 1, 1},
    {0x246, 0x24e, 1, 2},  {0x1cd, 0x1db, 1, 2},   {0x1de, 0x1ee, 1, 2},    {0x1f8, 0x21e, 1, 2},
    {0x222, 0x232, 1, 2},  {0x370, 0x372, 1, 2},   {0x386, 0x386, 38, 1},   {0x388, 0x38a, 37, 1},
    {0x38c, 0x38c, 64, 1}, {0x38e, 0x38f, 63, 1},  {0x391, 0x3a1, 32, 1},   {0x3a3, 0x3ab, 32, 1},
    {0x3d8, 0x3ee, 1, 2},  {0x400, 0x40f, 80, 1},  {0x410, 0x42f, 32, 1},   {0x460, 0x480, 1, 2},
    {0x48a, 0x4be, 1, 2},  {0x4c0, 0x4c0, 15, 1},  {0x4c1, 0x4cd, 1, 2},    {0x4d0, 0x52e, 1, 2},
    {0x531, 0x556, 48, 1}, {0x1e00, 0x1e94, 1, 2}, {0x1ea0, 0x1efe, 1, 2},  {0xff21, 0xff3a, 32, 1},
};

uint32_t lf_jinja_lower(uint32_t cp)
{
    if (cp < 0x80) return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        if (cp < cases[i].first || cp > cases[i].last || (cp - cases[i].first) % cases[i].step) continue;
        return (uint32_t)((int32_t)cp + cases[i].delta);
    }
    return cp;
}

uint32_t lf_jinja_upper(uint32_t cp)
{
    if (cp < 0x80) return cp >= 'a' && cp <= 'z' ? cp - 32 : cp;
    /* Lower-case letters that are not the lower case of their upper case. */
    if (cp == 0xb5) return 0x39c;
    if (cp == 0x131) return 'I';
    if (cp == 0x17f) return 'S';
    if (cp == 0x3c2) return 0x3a3;
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        uint32_t upper = (uint32_t)((int32_t)cp - cases[i].delta);
        if (upper < cases[i].first || upper > cases[i].last || (upper - cases[i].first) % cases[i].step) continue;
        return upper;
    }
    return cp;
}
