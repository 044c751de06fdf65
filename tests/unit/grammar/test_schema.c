/* grammar/schema*.c: what each keyword lets through and what not, what is refused and where, and the bounds. */
#include "tests/unit/grammar/rig.h"

#include "core/clock.h"
#include "core/work.h"

/* A schema, texts that it takes and texts that it does not, each list ended by NULL. */
struct check {
    const char *schema;
    const char *yes[8], *no[10];
};

static void check_all(const struct check *checks, size_t n, const struct lf_grammar_options *options)
{
    struct lf_vocabulary *v = vocabulary_of_bytes();
    for (size_t i = 0; i < n; i++) {
        struct lf_grammar *g = grammar_of(checks[i].schema, options);
        for (int k = 0; k < 8 && checks[i].yes[k]; k++)
            if (!takes(g, v, checks[i].yes[k])) fail_msg("%s must take %s", checks[i].schema, checks[i].yes[k]);
        for (int k = 0; k < 10 && checks[i].no[k]; k++)
            if (takes(g, v, checks[i].no[k])) fail_msg("%s must not take %s", checks[i].schema, checks[i].no[k]);
        lf_grammar_unref(g);
    }
    lf_vocabulary_destroy(v);
}

#define CHECK_ALL(checks) check_all(checks, sizeof(checks) / sizeof *(checks), NULL)

static void types(void **state)
{
    (void)state;
    static const struct check checks[] = {
        {"true", {"1", "\"a\"", "{\"a\":[1,{}]}", "[]", "null", "-0.5e3"}, {"", "{", "01", "tru", "{}{}", " 1"}},
        {"{\"type\":\"null\"}", {"null"}, {"true", "0"}},
        {"{\"type\":\"boolean\"}", {"true", "false"}, {"null"}},
        {"{\"type\":\"integer\"}", {"0", "-7", "123"}, {"1.5", "01", "1e2", "+1", "-"}},
        {"{\"type\":\"number\"}", {"0", "-7.25", "1e5", "1.5E-3"}, {".5", "1.", "NaN", "1e"}},
        {"{\"type\":[\"string\",\"null\"]}", {"\"\"", "null"}, {"1", "{}"}},
        {"{\"type\":\"string\"}",
         {"\"a\\n\\u00e9\\ud83d\\ude00/\"", "\"\xc3\xa9\"", "\"\\u0001\""},
         {"\"a", "\"\n\"", "\"\\x\"", "\"\\ud83d\"", "\"\\ude00\"", "\"\\u0000\"", "\"\xc3\"", "\"\\ud83d\\u0041\""}},
        {"{\"type\":\"object\"}", {"{}", "{\"a\":1,\"\\u0062\":{}}"}, {"{\"a\"}", "{,}", "{\"a\":1,}", "[]"}},
        {"{\"type\":\"array\"}", {"[]", "[1,\"a\",[]]"}, {"[1,]", "[,]", "{}"}},
        {"{\"title\":\"x\",\"default\":3,\"x-mine\":1}", {"3", "{}"}, {""}},
    };
    CHECK_ALL(checks);
}

static void objects(void **state)
{
    (void)state;
    static const struct check checks[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"}},"
         "\"required\":[\"a\"],\"additionalProperties\":false}",
         {"{\"a\":1}", "{\"a\":1,\"b\":null}"},
         {"{}", "{\"b\":null}", "{\"b\":null,\"a\":1}", "{\"a\":1,\"c\":2}", "{\"a\":null}", "{\"a\":1,}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}",
         {"{}", "{\"a\":1}", "{\"a\":1,\"x\":[]}", "{\"x\":[]}", "{\"aa\":\"\"}", "{\"\":0}"},
         {"{\"a\":\"\"}", "{\"\\u0061\":\"\"}", "{\"x\":1,\"a\":1}"}},
        {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}",
         {"{}", "{\"x\":1,\"y\":2}"},
         {"{\"x\":\"\"}"}},
        {"{\"type\":\"object\",\"required\":[\"z\"],\"properties\":{\"a\":{}}}",
         {"{\"a\":0,\"z\":0}", "{\"z\":{}}", "{\"z\":1,\"y\":1}"},
         {"{}", "{\"a\":1}"}},
        {"{\"type\":\"object\",\"patternProperties\":{\"^n\":{\"type\":\"integer\"},\"s$\":{\"maximum\":5}},"
         "\"additionalProperties\":false}",
         {"{\"n\":9}", "{\"xs\":5}", "{\"ns\":3}", "{\"xs\":\"a\"}"},
         {"{\"n\":\"\"}", "{\"xs\":6}", "{\"ns\":6}", "{\"ns\":\"\"}", "{\"q\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"na\":{\"minimum\":3}},\"patternProperties\":{\"^n\":{\"type\":"
         "\"integer\"}}}",
         {"{\"na\":3}", "{\"nb\":1,\"q\":\"\"}"},
         {"{\"na\":2}", "{\"na\":\"\"}", "{\"nb\":\"\"}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-c]+$\",\"maxLength\":2},\"properties\":{\"d\":{}}}",
         {"{}", "{\"ab\":1}", "{\"c\":0,\"a\":0}"},
         {"{\"d\":1}", "{\"abc\":1}", "{\"\":1}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"x\",\"y\"]}}", {"{\"y\":1}"}, {"{\"z\":1}"}},
        {"{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}",
         {"{\"a\":1}", "{\"a\":1,\"b\":1}"},
         {"{}", "{\"a\":1,\"b\":1,\"c\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"minProperties\":2,"
         "\"additionalProperties\":false}",
         {"{\"a\":1,\"c\":1}", "{\"a\":1,\"b\":1,\"c\":1}"},
         {"{\"a\":1}", "{}"}},
        {"{\"type\":\"object\",\"maxProperties\":0}", {"{}"}, {"{\"a\":1}"}},
        {"{\"properties\":{\"a\":false},\"type\":\"object\"}", {"{}", "{\"b\":1}"}, {"{\"a\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"q\\\"\\n\":{\"const\":1}},\"additionalProperties\":false}",
         {"{\"q\\\"\\n\":1}"},
         {"{\"q\":1}"}},
    };
    CHECK_ALL(checks);
}

static void arrays(void **state)
{
    (void)state;
    static const struct check checks[] = {
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}",
         {"[1]", "[1,2,3]"},
         {"[]", "[1,2,3,4]", "[\"\"]"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":false}",
         {"[]", "[1]", "[1,\"\"]"},
         {"[\"\"]", "[1,2]", "[1,\"\",1]"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"}],\"items\":{\"type\":\"null\"},\"minItems\":2}",
         {"[1,null]", "[1,null,null,null]"},
         {"[1]", "[null]", "[1,1]"}},
        {"{\"type\":\"array\",\"maxItems\":0}", {"[]"}, {"[1]"}},
        {"{\"type\":\"array\",\"minItems\":2}", {"[1,[]]", "[1,2,3]"}, {"[1]"}},
        {"{\"type\":\"array\",\"items\":false}", {"[]"}, {"[1]"}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"maxItems\":1}", {"[]", "[1]"}, {"[1,1]"}},
    };
    CHECK_ALL(checks);
}

static void strings(void **state)
{
    (void)state;
    static const struct check checks[] = {
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
         {"\"ab\"", "\"\xc3\xa9\xf0\x9f\x98\x80z\"", "\"\\ud83d\\ude00\\n\""},
         {"\"a\"", "\"abcd\"", "\"\\ud83d\\ude00\"", "\"\xc3\xa9\""}},
        {"{\"type\":\"string\",\"minLength\":1}", {"\"a\"", "\"abcdefgh\""}, {"\"\""}},
        {"{\"type\":\"string\",\"maxLength\":0}", {"\"\""}, {"\"a\""}},
        {"{\"type\":\"string\",\"pattern\":\"^a[\\\"\\\\\\\\\\n\\u0001]$\"}",
         {"\"a\\\"\"", "\"a\\\\\"", "\"a\\n\"", "\"a\\u0001\""},
         {"\"ab\"", "\"\\u0061\\n\"", "\"a\""}},
        {"{\"type\":\"string\",\"format\":\"uri\",\"minLength\":8,\"maxLength\":2083}",
         {"\"http://a\"", "\"urn:isbn:1\""},
         {"\"http://\"", "\"a:b\"", "\"http\""}},
        {"{\"type\":\"string\",\"format\":\"email\",\"maxLength\":9}",
         {"\"a@b\"", "\"abc@de.fg\""},
         {"\"abcd@de.fg\"", "\"abcdefg\""}},
        {"{\"type\":\"string\",\"pattern\":\"^\\\\S+$\",\"minLength\":2,\"maxLength\":255}",
         {"\"ab\"", "\"\xc3\xa9\\\"\""},
         {"\"a\"", "\"\xc3\xa9\"", "\"\\\"\"", "\"a b\""}},
        {"{\"type\":\"string\",\"pattern\":\"b+\",\"maxLength\":3}", {"\"abb\"", "\"b\""}, {"\"abbb\"", "\"aa\""}},
        {"{\"type\":\"string\",\"format\":\"date\"}",
         {"\"2024-02-29\"", "\"1999-12-31\""},
         {"\"2023-02-29\"", "\"2024-13-01\"", "\"1900-02-29\"", "\"0000-01-01\"", "\"2024-04-31\""}},
        {"{\"type\":\"string\",\"format\":\"date-time\"}",
         {"\"2024-02-29T23:59:59Z\"", "\"2024-01-01T00:00:00.123+05:30\""},
         {"\"2024-01-01\"", "\"2024-01-01T24:00:00Z\"", "\"2024-01-01T00:00:00\""}},
        {"{\"type\":\"string\",\"format\":\"duration\"}",
         {"\"P1Y2M3DT4H5M6S\"", "\"PT36H\"", "\"P4W\"", "\"P1D\""},
         {"\"P\"", "\"PT\"", "\"P1YT\"", "\"P1Y2W\"", "\"PT1H2S\""}},
        {"{\"type\":\"string\",\"format\":\"uuid\"}",
         {"\"01234567-89ab-cdef-0123-456789ABCDEF\""},
         {"\"0123456789abcdef0123456789abcdef\""}},
        {"{\"type\":\"string\",\"format\":\"email\"}", {"\"a.b@c.de\""}, {"\"a\"", "\"a@\"", "\".a@b\""}},
        {"{\"type\":\"string\",\"format\":\"ipv4\"}",
         {"\"255.0.10.1\""},
         {"\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""}},
        {"{\"type\":\"string\",\"format\":\"ipv6\"}",
         {"\"::\"", "\"::1\"", "\"1:2:3:4:5:6:7:8\"", "\"1::8\"", "\"::ffff:1.2.3.4\"", "\"1:2:3:4:5:6:7::\""},
         {"\"1:2:3\"", "\"1::2::3\"", "\"12345::\"", "\"1:2:3:4:5:6:7:8:9\""}},
        {"{\"type\":\"string\",\"format\":\"uri\"}",
         {"\"ldap://[2001:db8::7]/c\"", "\"https://a.b/c?d=e#f\"", "\"mailto:x@y\"", "\"urn:a:b\""},
         {"\"a b:c\"", "\"//a/b\"", "\"abc\""}},
    };
    CHECK_ALL(checks);
}

static void numbers(void **state)
{
    (void)state;
    static const struct check checks[] = {
        {"{\"type\":\"integer\",\"minimum\":-3,\"exclusiveMaximum\":12}",
         {"-3", "0", "11", "9"},
         {"-4", "12", "100", "-0", "1.0"}},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0.5,\"maximum\":10}",
         {"0.51", "10", "9.999", "10.0"},
         {"0.5", "10.01", "-1", "0.50", "1e1"}},
        {"{\"type\":\"integer\",\"multipleOf\":6,\"minimum\":7}", {"12", "18"}, {"6", "13", "0"}},
        {"{\"type\":\"number\",\"multipleOf\":2}", {"4", "-2", "0"}, {"3", "4.5"}},
        {"{\"allOf\":[{\"minimum\":1},{\"minimum\":3},{\"exclusiveMinimum\":3}],\"type\":\"integer\"}", {"4"}, {"3"}},
        {"{\"minimum\":5}", {"5", "\"a\"", "[]"}, {"4"}},
        {"{\"type\":\"number\",\"minimum\":1e2,\"maximum\":1.01e2}", {"100", "101", "100.5"}, {"99", "102"}},
    };
    CHECK_ALL(checks);
}

static void enums(void **state)
{
    (void)state;
    static const struct check checks[] = {
        {"{\"enum\":[1,\"a\",null,[1,{\"b\":2}]]}", {"1", "\"a\"", "null", "[1,{\"b\":2}]"}, {"2", "\"b\"", "[1]"}},
        {"{\"const\":1.0}", {"1", "1.0"}, {"1.00", "10"}},
        {"{\"type\":\"string\",\"enum\":[\"a\",1,\"bb\"],\"maxLength\":1}", {"\"a\""}, {"1", "\"bb\""}},
        {"{\"type\":\"integer\",\"enum\":[1,2.5,30],\"maximum\":10}", {"1"}, {"2.5", "30"}},
        {"{\"allOf\":[{\"enum\":[1,2,3]},{\"enum\":[2,3,4]},{\"const\":3}]}", {"3"}, {"1", "2", "4"}},
        {"{\"enum\":[\"\\u00e9\\\"\\n\"]}", {"\"\xc3\xa9\\\"\\n\""}, {"\"\\u00e9\\\"\\n\""}},
    };
    CHECK_ALL(checks);
}

static void combinations(void **state)
{
    (void)state;
    static const struct check checks[] = {
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1}},\"required\":"
         "[\"a\"],\"additionalProperties\":false},{\"type\":\"object\",\"properties\":{\"a\":{\"const\":2},\"b\":{}},"
         "\"required\":[\"a\",\"b\"],\"additionalProperties\":false}]}",
         {"7", "{\"a\":1}", "{\"a\":2,\"b\":[]}"},
         {"{\"a\":2}", "{\"a\":1,\"b\":1}", "\"\""}},
        {"{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"integer\",\"minimum\":5},{\"type\":\"number\",\"maximum\":4.5}]"
         "}",
         {"\"\"", "5", "4.5"},
         {"4.6", "null"}},
        {"{\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"a\"}},\"required\":[\"k\"]},{\"properties\":{\"k\":{"
         "\"const\":"
         "\"b\"},\"v\":{\"type\":\"integer\"}},\"required\":[\"k\"]}],\"type\":\"object\"}",
         {"{\"k\":\"a\",\"v\":\"\"}", "{\"k\":\"b\",\"v\":1}"},
         {"{\"k\":\"b\",\"v\":\"\"}", "{\"k\":\"c\"}", "{}"}},
        {"{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}}},{\"properties\":{\"a\":{\"minimum\":3},\"b\":{}},"
         "\"required\":[\"b\"]}],\"type\":\"object\"}",
         {"{\"a\":3,\"b\":1}", "{\"b\":1}"},
         {"{\"a\":2,\"b\":1}", "{\"a\":3}"}},
        {"{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"anyOf\":["
         "{\"$ref\":\"#/$defs/"
         "n\"},{\"type\":\"null\"}]}},\"required\":[\"v\",\"next\"],\"additionalProperties\":false}},"
         "\"$ref\":\"#/$defs/n\"}",
         {"{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}"},
         {"{\"v\":1}", "{\"v\":1,\"next\":{}}"}},
        {"{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}", {"[]", "[[],[[]]]"}, {"[1]"}},
        {"{\"$ref\":\"#/definitions/a%25b~1c\",\"definitions\":{\"a%b/c\":{\"const\":1}}}", {"1"}, {"2"}},
        {"{\"$ref\":\"#here\",\"$defs\":{\"x\":{\"$anchor\":\"here\",\"const\":2}}}", {"2"}, {"1"}},
        {"{\"default\":{\"$anchor\":\"x\",\"const\":2},\"$ref\":\"#x\",\"$defs\":{\"a\":{\"$anchor\":\"x\",\"const\":1}"
         "}}",
         {"1"},
         {"2"}},
        {"{\"x-own\":[{\"$anchor\":\"x\",\"const\":2}],\"$ref\":\"#x\",\"$defs\":{\"x-a\":{\"$anchor\":\"x\",\"const\":"
         "1}}}",
         {"1"},
         {"2"}},
        {"{\"allOf\":[{\"const\":0.5},{\"enum\":[0.50,5e-2]}]}", {"0.5"}, {"0.05"}},
        {"{\"const\":-0.0}", {"0", "-0.0"}, {"-0"}},
        {"{\"allOf\":[{\"const\":{\"b\":1.0,\"a\":[1e2]}},{\"enum\":[{\"a\":[100],\"b\":1}]}]}",
         {"{\"a\":[100],\"b\":1}", "{\"b\":1.0,\"a\":[1e2]}"},
         {"{\"a\":[1e2]}"}},
        {"{\"$ref\":\"#x\",\"$defs\":{\"e\":{\"enum\":[{\"$anchor\":\"x\",\"const\":1}]},\"enum\":{\"$anchor\":\"x\","
         "\"const\":2}}}",
         {"2"},
         {"1"}},
        {"{\"$ref\":\"#/allOf/0\",\"allOf\":[{\"minimum\":2}],\"type\":\"integer\"}", {"2"}, {"1"}},
        {"{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]},"
         "{\"const\":0}]}",
         {"0", "{\"a\":{\"a\":0}}"},
         {"{\"a\":1}", "{}"}},
    };
    CHECK_ALL(checks);
}

/* What OpenAPI writes into its schemas. */
static void openapi(void **state)
{
    (void)state;
    static const struct check checks[] = {
        {"{\"type\":\"string\",\"nullable\":true,\"maxLength\":1}", {"null", "\"a\""}, {"\"ab\"", "1"}},
        {"{\"type\":\"string\",\"nullable\":false}", {"\"a\""}, {"null"}},
        {"{\"type\":[\"string\"],\"nullable\":true,\"enum\":[\"a\",1]}", {"\"a\""}, {"null", "1"}},
        {"{\"type\":\"string\",\"nullable\":true,\"enum\":[\"a\",null]}", {"\"a\"", "null"}, {"\"b\""}},
        {"{\"nullable\":true,\"allOf\":[{\"type\":\"integer\"}]}", {"1"}, {"null"}},
        {"{\"type\":\"object\",\"nullable\":true,\"properties\":{\"a\":{\"type\":\"null\"}},\"xml\":{\"name\":\"x\"},"
         "\"externalDocs\":{\"url\":\"u\"},\"example\":{\"a\":1},\"discriminator\":{\"propertyName\":\"a\"},"
         "\"additionalProperties\":false}",
         {"null", "{}", "{\"a\":null}"},
         {"{\"a\":1}"}},
        {"{\"$ref\":\"#x\",\"xml\":{\"$anchor\":\"x\",\"const\":2},\"$defs\":{\"a\":{\"$anchor\":\"x\",\"const\":1}}}",
         {"1"},
         {"2"}},
        {"{\"type\":\"integer\",\"format\":\"int32\"}",
         {"2147483647", "-2147483648", "0"},
         {"2147483648", "-2147483649", "99999999999"}},
        {"{\"type\":\"integer\",\"format\":\"int64\",\"minimum\":-5}",
         {"9223372036854775807", "-5"},
         {"9223372036854775808", "-6"}},
        {"{\"type\":\"number\",\"format\":\"int32\",\"maximum\":7}", {"7", "-1"}, {"8", "1.5"}},
        {"{\"type\":\"number\",\"format\":\"float\"}",
         {"1.5", "340282346638528859999999999999999999999"},
         {"340282346638528860000000000000000000001", "1000000000000000000000000000000000000000"}},
        {"{\"type\":\"number\",\"format\":\"double\"}", {"1.5", "1e99"}, {"\"1\""}},
        {"{\"type\":\"string\",\"format\":\"int64\"}", {"\"1\"", "\"a\""}, {"1"}},
        {"{\"format\":\"int32\"}", {"1", "\"a\"", "[1.5]"}, {"1.5", "2147483648"}},
        {"{\"type\":\"integer\",\"format\":\"date\"}", {"1"}, {"\"2024-01-01\""}},
        {"{\"enum\":[1,1.5,3000000000],\"format\":\"int32\"}", {"1"}, {"1.5", "3000000000"}},
        {"{\"type\":\"string\",\"format\":\"byte\"}",
         {"\"\"", "\"YQ==\"", "\"YWI=\"", "\"YWJj\"", "\"YWJjYQ==\""},
         {"\"Y\"", "\"YQ\"", "\"YQ=\"", "\"YWJ j\"", "\"=\""}},
        {"{\"type\":\"string\",\"format\":\"password\",\"minLength\":1}", {"\"x y\""}, {"\"\""}},
        {"{\"type\":\"string\",\"format\":\"binary\"}", {"\"\"", "\"\\u0001\""}, {"1"}},
        {"{\"type\":\"string\",\"format\":\"uri-reference\",\"maxLength\":2048}",
         {"\"\"", "\"/a/b?c#d\"", "\"a/b:c\"", "\"//h:1/p\"", "\"http://[::1]/\"", "\"urn:a:b\"", "\"?q\"",
          "\"./a:b\""},
         {"\":a\"", "\"1a:b\"", "\"a b\"", "\"#a#b\"", "\"%zz\"", "\"//[1]\""}},
    };
    CHECK_ALL(checks);
}

static void references_by_the_own_id(void **state)
{
    (void)state;
    static const struct check checks[] = {
        {"{\"$id\":\"https://a.b/c/d.json\",\"$ref\":\"https://a.b/c/d.json#/$defs/"
         "x\",\"$defs\":{\"x\":{\"const\":1}}}",
         {"1"},
         {"2"}},
        {"{\"$id\":\"https://a.b/c/d.json#\",\"$ref\":\"d.json#y\",\"$defs\":{\"x\":{\"$anchor\":\"y\",\"const\":1}}}",
         {"1"},
         {"2"}},
        {"{\"$id\":\"tree\",\"type\":\"array\",\"items\":{\"$ref\":\"tree\"}}", {"[]", "[[],[[]]]"}, {"[1]"}},
    };
    CHECK_ALL(checks);
}

/* Ways to say things that are seldom used. */
static void corners(void **state)
{
    (void)state;
    static const struct check checks[] = {
        {"{\"$ref\":\"#/$defs/a~1\",\"$defs\":{\"a/\":{\"const\":1}}}", {"1"}, {"2"}},
        {"{\"$ref\":\"#/$defs/a~1b%20~0c\",\"$defs\":{\"a/b ~c\":{\"const\":1}}}", {"1"}, {"2"}},
        {"{\"$ref\":\"#/anyOf/1\",\"anyOf\":[{},{\"type\":\"null\"}]}", {"null"}, {"1"}},
        {"{\"$ref\":\"#k\",\"enum\":[1,{\"$anchor\":\"k\"}],\"$defs\":{\"x\":{\"$anchor\":\"k\",\"type\":\"integer\"}}"
         "}",
         {"1"},
         {"2", "{\"$anchor\":\"k\"}"}},
        {"{\"oneOf\":[false,{\"type\":\"null\"},false]}", {"null"}, {"1"}},
        {"{\"anyOf\":[false,true],\"type\":\"null\"}", {"null"}, {"1"}},
        {"{\"type\":\"string\",\"oneOf\":[{\"format\":\"email\"},{\"format\":\"uri\"},{\"format\":\"date\"},{"
         "\"format\":"
         "\"time\"},{\"format\":\"date-time\"},{\"format\":\"ipv4\"},{\"format\":\"duration\"},{\"const\":\"a@b@c\"}]}",
         {"\"a@b\"", "\"a:b\"", "\"2024-02-29\"", "\"1.2.3.4\"", "\"P1D\"", "\"a@b@c\""},
         {"\"a\"", "\"2023-02-29\""}},
        {"{\"oneOf\":[{\"type\":\"integer\",\"multipleOf\":10},{\"const\":12345678901234567891}]}",
         {"10", "12345678901234567891"},
         {"12345678901234567890", "1"}},
        {"{\"enum\":[\"a.b.c.d.e.f\",\"-\"],\"format\":\"hostname\"}", {"\"a.b.c.d.e.f\""}, {"\"-\""}},
        {"{\"type\":\"object\",\"propertyNames\":{\"const\":\"a\"}}", {"{}", "{\"a\":1}"}, {"{\"b\":1}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",1,\"b\"]}}", {"{\"b\":1}"}, {"{\"c\":1}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"const\":\"a\",\"enum\":[\"b\",\"a\"]}}",
         {"{\"a\":1}"},
         {"{\"b\":1}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"const\":\"a\",\"enum\":[\"b\"]}}",
         {"{}"},
         {"{\"a\":1}", "{\"b\":1}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"type\":\"null\"}}", {"{}"}, {"{\"a\":1}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"anyOf\":[{\"const\":\"a\"},{\"pattern\":\"^b+$\"}]}}",
         {"{\"a\":1,\"bb\":2}"},
         {"{\"c\":1}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"allOf\":[{\"minLength\":2},{\"maxLength\":2}]}}",
         {"{\"ab\":1}"},
         {"{\"a\":1}", "{\"abc\":1}"}},
        {"{\"type\":\"integer\",\"allOf\":[{\"multipleOf\":4},{\"multipleOf\":6}]}", {"12", "0", "-24"}, {"4", "18"}},
        {"{\"allOf\":[{\"minimum\":1},{\"exclusiveMinimum\":1},{\"maximum\":3},{\"exclusiveMaximum\":3},{\"type\":"
         "\"integer\"}]}",
         {"2"},
         {"1", "3"}},
        {"{\"type\":\"object\",\"maxProperties\":4000000000}", {"{}", "{\"a\":1,\"b\":2}"}, {"[]"}},
        {"{\"enum\":[[1,2],{\"a\":1,\"b\":[]},1.0,-0.5,true]}",
         {"[1,2]", "{\"a\":1,\"b\":[]}", "1", "1.0", "-0.5", "true"},
         {"[2,1]", "false"}},
        {"{\"enum\":[null,true,[],{}],\"type\":\"array\"}", {"[]"}, {"{}", "null", "true"}},
        {"{\"enum\":[\"a\",\"abc\",\"abcde\"],\"minLength\":2,\"maxLength\":4}", {"\"abc\""}, {"\"a\"", "\"abcde\""}},
        {"{\"type\":[\"null\",\"boolean\"]}", {"null", "true"}, {"1"}},
        {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"$id\":\"x\",\"const\":1}", {"1"}, {"2"}},
        {"{\"enum\":[-3,-1.5,0,2,7],\"type\":\"number\",\"exclusiveMinimum\":-2,\"exclusiveMaximum\":7}",
         {"-1.5", "0", "2"},
         {"-3", "7"}},
        {"{\"enum\":[-3,5,2.5,6],\"type\":\"integer\",\"multipleOf\":3}", {"-3", "6"}, {"5", "2.5"}},
        {"{\"enum\":[-5,-3,-1,3],\"minimum\":-3,\"maximum\":-1}", {"-3", "-1"}, {"-5", "3"}},
        {"{\"enum\":[1e300,1]}", {"1e300", "1"}, {"1e30", "10e299"}},
        {"{\"enum\":[1e300,2e300,-1e300,1e-300],\"minimum\":1e-299,\"maximum\":1.5e300,\"type\":\"integer\"}",
         {"1e300"},
         {"2e300", "-1e300", "1e-300"}},
        {"{\"allOf\":[{\"const\":1e300},{\"enum\":[10e299]}]}", {"1e300"}, {"10e299"}},
        {"{\"type\":\"number\",\"minimum\":-1.7976931348623157e308,\"maximum\":1.7976931348623157e308}",
         {"0", "-12.5", "99999999999999999999999999999999"},
         {"1e5", "-0"}},
        {"{\"type\":\"number\",\"exclusiveMinimum\":5e-324,\"maximum\":0.5}", {"0.0000001", "0.5"}, {"0", "0.6", "-1"}},
        {"{\"oneOf\":[{\"const\":1e300},{\"type\":\"number\",\"maximum\":1e299}]}", {"1e300", "7"}, {"2e300"}},
        {"{\"enum\":[1e2,2E+1,30e-1],\"minimum\":3}", {"1e2", "100", "20", "2E+1", "3"}, {"2"}},
        {"{\"enum\":[null,\"a\",[]],\"type\":[\"string\",\"object\"]}", {"\"a\""}, {"null", "[]"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":true,\"b\":true},\"maxProperties\":1,\"additionalProperties\":"
         "false}",
         {"{}", "{\"a\":1}", "{\"b\":1}"},
         {"{\"a\":1,\"b\":1}"}},
        {"{\"prefixItems\":[{\"const\":1}],\"allOf\":[{\"prefixItems\":[true,{\"const\":2}]}],\"type\":\"array\","
         "\"maxItems\":2}",
         {"[1]", "[1,2]", "[]"},
         {"[2]", "[1,1]"}},
    };
    check_all(checks, sizeof checks / sizeof *checks, NULL);
}

static void strict_objects_have_no_other_members(void **state)
{
    (void)state;
    static const struct check checks[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{}}}", {"{}", "{\"a\":1}"}, {"{\"b\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"additionalProperties\":true}", {"{\"b\":1}"}, {"[]"}},
        {"{\"type\":\"object\"}", {"{\"b\":1}"}, {"[]"}},
    };
    struct lf_grammar_options strict = {.strict = true};
    check_all(checks, sizeof checks / sizeof *checks, &strict);
}

static void white_space_where_it_is_asked_for(void **state)
{
    (void)state;
    static const struct check checks[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"const\":1}}},\"required\":[\"a\"]"
         "}",
         {"{\"a\":[1]}", "{ \"a\": [ 1, 1 ] }", "{\"a\": [],  \"b\":1}", "{\"a\":[ ]}"},
         {" {\"a\":[]}", "{\"a\" :[]}", "{\"a\":[1 ,1]}", "{\t\"a\":[]}"}},
    };
    struct lf_grammar_options spaced = {.whitespace = LF_STR("[ ]{0,2}")};
    check_all(checks, 1, &spaced);
}

/* What JSON has for white space, whatever a pattern matches: the answer is to parse. */
static void white_space_is_what_it_is_in_json(void **state)
{
    (void)state;
    static const struct check checks[] = {
        {"{\"type\":\"array\",\"items\":{\"const\":1}}",
         {"[ 1,\n1]", "[\t1]", "[1]", "[]"},
         {"[\f1]",
          "[\xc2\xa0"
          "1]",
          "[x1]", "[1,x1]"}},
    };
    static const char *const patterns[] = {"\\s*", "([\\s]|x)*", "[^1\\]]*"};
    for (size_t i = 0; i < LF_N_ELEMS(patterns); i++) {
        struct lf_grammar_options spaced = {.whitespace = lf_str_c(patterns[i])};
        check_all(checks, 1, &spaced);
    }
    struct lf_grammar_options none = {.whitespace = LF_STR("x+")};
    struct lf_json json = {0};
    struct lf_grammar *g = NULL;
    struct lf_err err = {0};
    assert_int_equal(lf_json_parse(&json, LF_STR("{}"), &lf_json_limits_request, NULL), LF_OK);
    assert_int_equal(lf_grammar_of_schema(&g, lf_json_root(&json), &none, NULL, &err), LF_INVALID);
    assert_non_null(strstr(err.message, "white space"));
    lf_json_deinit(&json);
}

struct refusal {
    const char *schema, *says;
    enum lf_status status;
};

static void check_refusals(const struct refusal *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct lf_grammar *g = NULL;
        struct lf_err err = {0};
        enum lf_status status = try_schema(&g, cases[i].schema, NULL, &err);
        if (status != cases[i].status || !strstr(err.message, cases[i].says))
            fail_msg("%s: status %d, %s", cases[i].schema, status, err.message);
    }
}

/* By all that they allow: what the one writes and the other one allows, though it would not write it. */
static void branches_of_a_oneof_exclude_each_other(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":3}]}", "#/oneOf\": \"oneOf\": branches 0 and 1",
         LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"type\":\"null\"},{\"type\":\"integer\"},{\"const\":3}]}", "branches 1 and 2", LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"const\":0.5},{\"const\":0.50}]}", "branches 0 and 1", LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"const\":1e20},{\"const\":100000000000000000000}]}", "branches 0 and 1", LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"const\":{\"a\":1,\"b\":2}},{\"const\":{\"b\":2,\"a\":1}}]}", "branches 0 and 1",
         LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"const\":\"a.b.c.d.e.f\"},{\"format\":\"hostname\"}]}", "branches 0 and 1", LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"type\":\"null\"},{\"type\":\"string\",\"format\":\"hostname\"},{\"type\":\"string\","
         "\"pattern\":"
         "\"^([a-z][.]){5}[a-z]$\"}]}",
         "branches 1 and 2", LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"const\":\"\\\"a b\\\"@c.de\"},{\"format\":\"email\"}]}", "branches 0 and 1", LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"const\":\"a@[::1]\"},{\"format\":\"email\"}]}", "branches 0 and 1", LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"const\":\"http://a:123456/\"},{\"format\":\"uri\"}]}", "branches 0 and 1", LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"const\":\"http://[v7.x]/\"},{\"format\":\"uri\"}]}", "branches 0 and 1", LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"const\":\"23:59:60Z\"},{\"format\":\"time\"}]}", "branches 0 and 1", LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"const\":\"2024-02-29t00:00:00.1234567z\"},{\"format\":\"date-time\"}]}", "branches 0 and 1",
         LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"const\":\"0000-01-01\"},{\"format\":\"date\"}]}", "branches 0 and 1", LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"const\":\"P1234567890D\"},{\"format\":\"duration\"}]}", "branches 0 and 1", LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"const\":1234567890123456789000},{\"type\":\"integer\",\"multipleOf\":1000}]}",
         "branches 0 and 1", LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"type\":\"string\",\"nullable\":true},{\"type\":\"null\"}]}", "branches 0 and 1",
         LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"const\":1e70},{\"type\":\"integer\"}]}", "branches 0 and 1", LF_UNSUPPORTED},
        {"{\"oneOf\":[{\"const\":1e300},{\"const\":10e299}]}", "branches 0 and 1", LF_UNSUPPORTED},
    };
    check_refusals(cases, sizeof cases / sizeof *cases);
}

static void what_is_not_supported_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"{\"properties\":{\"a/b\":{\"not\":{}}}}", "#/properties/a~1b\": the keyword \"not\"", LF_UNSUPPORTED},
        {"{\"items\":{\"if\":true}}", "#/items\": the keyword \"if\"", LF_UNSUPPORTED},
        {"{\"maxLenght\":3}", "the keyword \"maxLenght\"", LF_UNSUPPORTED},
        {"{\"anyOf\":[{},{\"format\":\"idn-email\"}]}", "#/anyOf/1/format\": \"format\": \"idn-email\"",
         LF_UNSUPPORTED},
        {"{\"pattern\":\"a(?=b)\"}", "#/pattern\": \"pattern\": pattern, byte", LF_UNSUPPORTED},
        {"{\"multipleOf\":0.5}", "#/multipleOf\"", LF_UNSUPPORTED},
        {"{\"type\":\"array\",\"uniqueItems\":true}", "uniqueItems", LF_UNSUPPORTED},
        {"{\"$ref\":\"http://a/b\"}", "another document", LF_UNSUPPORTED},
        {"{\"$id\":\"http://a/b\",\"items\":{\"$ref\":\"http://a/c\"}}", "another document", LF_UNSUPPORTED},
        {"{\"$id\":\"http://a/xb\",\"items\":{\"$ref\":\"b\"}}", "another document", LF_UNSUPPORTED},
        {"{\"$id\":\"http://a/b/c\",\"items\":{\"$ref\":\"b/c\"}}", "another document", LF_UNSUPPORTED},
        {"{\"type\":\"string\",\"nullable\":1}", "#/nullable\"", LF_INVALID},
        {"{\"type\":\"integer\",\"format\":\"int128\"}", "#/format\": \"format\": \"int128\"", LF_UNSUPPORTED},
        {"{\"type\":\"null\",\"format\":5}", "must be a string", LF_INVALID},
        {"{\"$schema\":\"http://me/mine\"}", "another dialect", LF_UNSUPPORTED},
        {"{\"$ref\":\"#/nowhere\"}", "no such place", LF_INVALID},
        {"{\"$ref\":\"#\"}", "refers to itself", LF_INVALID},
        {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"anyOf\":[{\"$ref\":\"#/$defs/"
         "a\"}]}}}",
         "refers to itself", LF_INVALID},
        {"{\"type\":\"string\",\"enum\":[1]}", "nothing can match", LF_INVALID},
        {"false", "nothing can match", LF_INVALID},
        {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "nothing can match", LF_INVALID},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", "nothing can match",
         LF_INVALID},
        {"{\"type\":\"strin\"}", "#/type\"", LF_INVALID},
        {"{\"type\":5}", "#/type\"", LF_INVALID},
        {"{\"properties\":[]}", "must be an object", LF_INVALID},
        {"{\"minLength\":-1}", "#/minLength\"", LF_INVALID},
        {"{\"anyOf\":[]}", "#/anyOf\"", LF_INVALID},
        {"{\"anyOf\":[3]}", "a schema must be", LF_INVALID},
        {"[]", "a schema must be", LF_INVALID},
        {"{\"type\":\"object\",\"minProperties\":2}", "minProperties", LF_UNSUPPORTED},
        {"{\"enum\":[{}],\"properties\":{}}", "\"enum\"", LF_UNSUPPORTED},
        {"{\"const\":[],\"items\":{}}", "\"enum\"", LF_UNSUPPORTED},
        {"{\"properties\":{\"a~b\":{\"not\":{}}}}", "#/properties/a~0b\": the keyword \"not\"", LF_UNSUPPORTED},
        {"{\"items\":{\"$id\":\"x\"}}", "\"$id\"", LF_UNSUPPORTED},
        {"{\"items\":[{}]}", "\"prefixItems\" is", LF_UNSUPPORTED},
        {"{\"required\":[1]}", "a list of strings", LF_INVALID},
        {"{\"propertyNames\":{\"type\":[\"string\",\"null\"]}}", "a list of types", LF_UNSUPPORTED},
        {"{\"type\":\"integer\",\"multipleOf\":0}", "#/multipleOf\"", LF_UNSUPPORTED},
        {"{\"allOf\":[{\"multipleOf\":997},{\"multipleOf\":991}],\"type\":\"integer\"}", "multipleOf", LF_LIMIT},
        {"{\"minimum\":1e64}", "#/minimum\": \"minimum\": numbers in answers have at most 64 digits", LF_LIMIT},
        {"{\"exclusiveMaximum\":-1e100}", "#/exclusiveMaximum\"", LF_LIMIT},
        {"{\"maximum\":1e-401}", "#/maximum\": \"maximum\": more than 400 digits", LF_LIMIT},
        {"{\"enum\":[1,1e-401],\"minimum\":0}", "#/enum\": \"enum\" or \"const\": more than 400 digits", LF_LIMIT},
        {"{\"minLength\":1.5}", "#/minLength\"", LF_INVALID},
        {"{\"allOf\":[]}", "#/allOf\"", LF_INVALID},
        {"{\"allOf\":{}}", "must be an array", LF_INVALID},
        {"{\"$ref\":\"#other\"}", "no such place", LF_INVALID},
        {"{\"$ref\":\"#/anyOf/2\",\"anyOf\":[{},{}]}", "no such place", LF_INVALID},
        {"{\"$ref\":\"#/anyOf/x\",\"anyOf\":[{},{}]}", "no such place", LF_INVALID},
        {"{\"$ref\":\"#/$defs/a%2\"}", "no such place", LF_INVALID},
        {"{\"$ref\":\"\"}", "another document", LF_UNSUPPORTED},
        {"{\"$ref\":\"#/anyOf/1000000000000\",\"anyOf\":[{}]}", "no such place", LF_INVALID},
        {"{\"$ref\":\"#/anyOf/\",\"anyOf\":[{}]}", "no such place", LF_INVALID},
        {"{\"$ref\":\"#/a~2\"}", "no such place", LF_INVALID},
        {"{\"$ref\":\"#/a%zz%4z~\"}", "no such place", LF_INVALID},
        {"{\"$ref\":\"#/a%00\"}", "no such place", LF_INVALID},
        {"{\"minLength\":\"1\"}", "must be a number", LF_INVALID},
        {"{\"\":1}", "the keyword", LF_UNSUPPORTED},
        {"{\"type\":{}}", "#/type\"", LF_INVALID},
        {"{\"$schema\":5}", "must be a string", LF_INVALID},
        {"{\"format\":\"\\u0000\"}", "", LF_INVALID},
    };
    check_refusals(cases, sizeof cases / sizeof *cases);
}

/* ------------------------------------------------------------------------------------------------ bounds, hostility */

static enum lf_status try_printf(struct lf_err *err, const char *fmt, int n)
{
    struct lf_buf text;
    struct lf_grammar *g = NULL;
    lf_buf_init(&text, 4096);
    lf_buf_printf(&text, "%.*s%d%s", (int)(strchr(fmt, '#') - fmt), fmt, n, strchr(fmt, '#') + 1);
    enum lf_status status = try_schema(&g, text.ptr, NULL, err);
    lf_grammar_unref(g);
    lf_buf_deinit(&text);
    return status;
}

static void bounds_hold_at_the_limit_and_one_past_it(void **state)
{
    (void)state;
    struct lf_err err;
    if (try_printf(&err, "{\"minItems\":#}", LF_GRAMMAR_UNROLLED_N) != LF_OK) fail_msg("%s", err.message);
    assert_int_equal(try_printf(&err, "{\"minItems\":#}", LF_GRAMMAR_UNROLLED_N + 1), LF_LIMIT);
    assert_int_equal(try_printf(&err, "{\"maxItems\":#}", LF_GRAMMAR_UNROLLED_N), LF_OK);
    assert_int_equal(try_printf(&err, "{\"maxItems\":#}", LF_GRAMMAR_UNROLLED_N + 1), LF_LIMIT);
    assert_int_equal(try_printf(&err, "{\"multipleOf\":#}", LF_GRAMMAR_MULTIPLE), LF_OK);
    assert_int_equal(try_printf(&err, "{\"multipleOf\":#}", LF_GRAMMAR_MULTIPLE + 1), LF_UNSUPPORTED);
    for (int over = 0; over < 2; over++) {
        struct lf_buf text;
        struct lf_grammar *g = NULL;
        lf_buf_init(&text, 2 << 20);
        lf_buf_cstr(&text, "{\"anyOf\":[{}");
        for (int i = 1; i < LF_GRAMMAR_BRANCHES_N + over; i++) lf_buf_printf(&text, ",{\"const\":%d}", i);
        lf_buf_cstr(&text, "]}");
        assert_int_equal(try_schema(&g, text.ptr, NULL, &err), over ? LF_LIMIT : LF_OK);
        lf_grammar_unref(g);
        lf_buf_clear(&text);
        lf_buf_cstr(&text, "{\"patternProperties\":{\"0\":{}");
        for (int i = 1; i < LF_GRAMMAR_PATTERN_PROPERTIES_N + over; i++) lf_buf_printf(&text, ",\"^%d\":{}", i);
        lf_buf_cstr(&text, "}}");
        g = NULL;
        assert_int_equal(try_schema(&g, text.ptr, NULL, &err), over ? LF_LIMIT : LF_OK);
        lf_grammar_unref(g);
        lf_buf_clear(&text);
        lf_buf_cstr(&text, "{\"title\":\"");
        while (text.len < (size_t)LF_GRAMMAR_SOURCE_BYTES - 2 + (size_t)over) lf_buf_char(&text, 'a');
        lf_buf_cstr(&text, "\"}");
        g = NULL;
        assert_int_equal(try_schema(&g, text.ptr, NULL, &err), over ? LF_LIMIT : LF_OK);
        lf_grammar_unref(g);
        lf_buf_deinit(&text);
    }
}

static void an_answer_nests_as_deep_as_readers_read(void **state)
{
    (void)state;
    struct lf_vocabulary *v = vocabulary_of_bytes();
    struct lf_grammar *g = grammar_of("{\"type\":\"array\"}", NULL);
    for (int over = 0; over < 2; over++) {
        char text[2 * (LF_GRAMMAR_DEPTH + 1) + 1] = {0};
        int n = LF_GRAMMAR_DEPTH + over;
        memset(text, '[', (size_t)n);
        memset(text + n, ']', (size_t)n);
        assert_int_equal(takes(g, v, text), !over);
    }
    lf_grammar_unref(g);
    lf_vocabulary_destroy(v);
}

static void a_hostname_has_at_most_253_characters(void **state)
{
    (void)state;
    struct lf_vocabulary *v = vocabulary_of_bytes();
    struct lf_grammar *g = grammar_of("{\"type\":\"string\",\"format\":\"hostname\"}", NULL);
    for (int over = 0; over < 2; over++) {
        char text[300] = "\"";
        memset(text + 1, 'a', (size_t)(253 + over));
        for (int i = 1; i < 4; i++) text[64 * i] = '.'; /* three labels of 63, and one of 61 or 62 */
        text[254 + over] = '"';
        assert_int_equal(takes(g, v, text), !over);
    }
    lf_grammar_unref(g);
    lf_vocabulary_destroy(v);
}

/* Each ends in bounded time, whatever it says. */
static void hostile_schemas_end(void **state)
{
    (void)state;
    struct lf_buf texts[6];
    for (int i = 0; i < 6; i++) lf_buf_init(&texts[i], 4 << 20);
    lf_buf_cstr(&texts[0], "{\"anyOf\":[{\"const\":0}");
    for (int i = 1; i < 10000; i++) lf_buf_printf(&texts[0], ",{\"pattern\":\"a%d\"}", i);
    lf_buf_cstr(&texts[0], "]}");
    lf_buf_cstr(&texts[1], "{\"allOf\":[");
    for (int i = 0; i < 30; i++)
        lf_buf_printf(&texts[1], "%s{\"anyOf\":[{\"minimum\":%d},{\"maximum\":%d}]}", i ? "," : "", i, i);
    lf_buf_cstr(&texts[1], "]}");
    lf_buf_cstr(&texts[2], "{\"pattern\":\"(((((((a{0,99}){0,99}){0,99}){0,99}){0,99}){0,99}){0,99}\"}");
    lf_buf_cstr(&texts[3], "{\"enum\":[0");
    for (int i = 1; i < 100000; i++) lf_buf_printf(&texts[3], ",%d", i);
    lf_buf_cstr(&texts[3], "]}");
    lf_buf_cstr(&texts[4], "{\"oneOf\":[{\"const\":0}");
    for (int i = 1; i < 1000; i++) lf_buf_printf(&texts[4], ",{\"pattern\":\"^%d[ab]*$\",\"type\":\"string\"}", i);
    lf_buf_cstr(&texts[4], "]}");
    lf_buf_cstr(&texts[5], "{\"properties\":{\"a\":{}");
    for (int i = 0; i < 20000; i++) lf_buf_printf(&texts[5], ",\"p%d\":{\"$ref\":\"#/properties/a\"}", i);
    lf_buf_cstr(&texts[5], "}}");
    for (int i = 0; i < 6; i++) {
        struct lf_grammar *g = NULL;
        struct lf_err err = {0};
        double began = cpu_seconds();
        assert_int_equal(texts[i].status, LF_OK);
        enum lf_status status = try_schema(&g, texts[i].ptr, NULL, &err);
        assert_true(cpu_seconds() - began < 0.5 * SLOWNESS);
        assert_true(status == LF_OK || (status == LF_LIMIT && err.message[0]));
        lf_grammar_unref(g);
        lf_buf_deinit(&texts[i]);
    }
}

static bool nobody_waits(void *ctx)
{
    (void)ctx;
    return true;
}

static void a_client_that_has_gone_ends_the_work(void **state)
{
    (void)state;
    struct lf_json doc = {0};
    struct lf_grammar *g = NULL;
    struct lf_err err;
    struct lf_work gone = {.is_over = nobody_waits}, late = {.deadline_ns = 1};
    assert_int_equal(lf_json_parse(&doc, LF_STR("{\"minItems\":20000}"), &lf_json_limits_request, NULL), LF_OK);
    assert_int_equal(lf_grammar_of_schema(&g, lf_json_root(&doc), NULL, &gone, &err), LF_CANCELLED);
    assert_int_equal(lf_grammar_of_schema(&g, lf_json_root(&doc), NULL, &late, &err), LF_TIMEOUT);
    lf_json_deinit(&doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types),
        cmocka_unit_test(objects),
        cmocka_unit_test(arrays),
        cmocka_unit_test(strings),
        cmocka_unit_test(numbers),
        cmocka_unit_test(enums),
        cmocka_unit_test(combinations),
        cmocka_unit_test(openapi),
        cmocka_unit_test(references_by_the_own_id),
        cmocka_unit_test(corners),
        cmocka_unit_test(strict_objects_have_no_other_members),
        cmocka_unit_test(white_space_where_it_is_asked_for),
        cmocka_unit_test(white_space_is_what_it_is_in_json),
        cmocka_unit_test(branches_of_a_oneof_exclude_each_other),
        cmocka_unit_test(what_is_not_supported_is_refused_with_its_place),
        cmocka_unit_test(bounds_hold_at_the_limit_and_one_past_it),
        cmocka_unit_test(an_answer_nests_as_deep_as_readers_read),
        cmocka_unit_test(a_hostname_has_at_most_253_characters),
        cmocka_unit_test(hostile_schemas_end),
        cmocka_unit_test(a_client_that_has_gone_ends_the_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
