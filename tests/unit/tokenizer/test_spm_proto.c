/* The wire format of tokenizer.model, byte by byte: what is read, what is passed over, and where a file is broken. */
#include "tests/support/test.h"
#include "tests/unit/tokenizer/sp_model.h"
#include "tokenizer/spm/spm_proto.h"

/* Reads a model that ends at an unmapped page. */
static enum lf_status read_bytes(struct lf_spm_proto *out, const void *bytes, size_t n, struct lf_err *err)
{
    struct test_guarded g = test_guarded_copy(bytes, n);
    enum lf_status status = lf_spm_proto_read(out, lf_str_from(g.ptr, n), err);
    if (status == LF_OK) out->charsmap = out->unk_surface = out->bos_piece = out->eos_piece = LF_STR(""); /* in g */
    test_guarded_free(&g);
    return status;
}

static void broken_fields_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *says;
    } cases[] = {
#define ROW(bytes, says) {bytes, sizeof bytes - 1, says}
        ROW("", "no pieces"),
        ROW("\x80", "bad field tag"),
        ROW("\x00\x01", "bad field tag"),                                     /* field 0 */
        ROW("\x80\x80\x80\x80\x10\x01", "bad field tag"),                     /* field 2^29, one more than there are */
        ROW("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "bad field tag"), /* a number of eleven bytes */
        ROW("\x08", "cut short"),
        ROW("\x08\x80", "cut short"),
        ROW("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "cut short"),
        ROW("\x0a", "cut short"),
        ROW("\x0a\x80", "cut short"),
        ROW("\x0a\x05"
            "abcd",
            "a field of 5 bytes, 4 are left"),
        ROW("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a field of 18446744073709551615 bytes, 0 are left"),
        ROW("\x09"
            "1234567",
            "a field of 8 bytes, 7 are left"),
        ROW("\x0d"
            "123",
            "a field of 4 bytes, 3 are left"),
        ROW("\x0b", "wire type 3"),
        ROW("\x0c", "wire type 4"),
        ROW("\x0e", "wire type 6"),
        ROW("\x0f", "wire type 7"),
        ROW("\x0a\x01\x0a", "cut short"),         /* in a piece */
        ROW("\x0a\x02\x0a\x00", "an empty text"), /* its text */
        ROW("\x0a\x00", "an empty text"),         /* no text at all */
        ROW("\x0a\x05\x0a\x01"
            "a\x18\x00",
            "of the unknown type 0"),
        ROW("\x0a\x05\x0a\x01"
            "a\x18\x07",
            "of the unknown type 7"),
        ROW("\x0a\x05\x0a\x01"
            "a\x18",
            "a field of 5 bytes, 4 are left"),
        ROW("\x0a\x04\x0a\x01"
            "a\x18",
            "cut short"),
        ROW("\x0a\x03\x0a\x01"
            "a\x12\x01\x18",
            "cut short"), /* in the trainer */
        ROW("\x0a\x03\x0a\x01"
            "a\x1a\x01\x18",
            "cut short"), /* in the normalizer */
        ROW("\x0a\x03\x0a\x01"
            "a\x1a\x02\x12\x05",
            "cut short"),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lf_spm_proto proto;
        struct lf_err err = {0};
        if (read_bytes(&proto, cases[i].bytes, cases[i].n, &err) != LF_CORRUPT || !strstr(err.message, cases[i].says))
            fail_msg("case %zu: %s", i, err.message);
    }
}

static void what_the_fields_say_is_read(void **state)
{
    (void)state;
    struct lf_buf m = start_model(true), part;
    struct lf_spm_proto proto;
    assert_int_equal(lf_spm_proto_read(&proto, lf_buf_view(&m), NULL), LF_OK);
    assert_int_equal(proto.model, LF_SPM_UNIGRAM); /* what holds where nothing is said */
    assert_true(proto.add_dummy_prefix && proto.remove_extra_whitespaces && proto.escape_whitespaces);
    assert_false(proto.byte_fallback || proto.whitespace_as_suffix);
    assert_true(lf_str_eq(proto.bos_piece, LF_STR("<s>")) && lf_str_eq(proto.eos_piece, LF_STR("</s>")));
    assert_true(lf_str_eq(proto.unk_surface, LF_STR(" \xe2\x81\x87 ")) && proto.charsmap.len == 0);
    assert_int_equal(proto.n_pieces, 1);
    assert_int_equal(proto.piece_bytes, 5);

    lf_buf_init(&part, 4096);
    put_number(&part, 3, 2);
    put_number(&part, 24, 1);
    put_number(&part, 35, 1);
    put_bytes(&part, 44, LF_STR("?"));
    put_bytes(&part, 46, LF_STR("<b>"));
    put_bytes(&part, 47, LF_STR("<e>"));
    put_number(&part, 99, 7); /* of no interest */
    put_bytes(&m, 2, lf_buf_view(&part));
    lf_buf_clear(&part);
    put_bytes(&part, 2, LF_STR("map"));
    put_number(&part, 3, 0);
    put_number(&part, 4, 0);
    put_number(&part, 5, 0);
    put_bytes(&part, 6, LF_STR("rules"));
    put_bytes(&m, 3, lf_buf_view(&part));
    put_number(&m, 1, 5); /* numbers where a message should be are passed over */
    put_number(&m, 2, 5);
    put_number(&m, 3, 5);
    lf_buf_cstr(&m, "\x31"
                    "eight by\x3d"
                    "four"); /* 64 and 32 bits of no interest */
    assert_int_equal(lf_spm_proto_read(&proto, lf_buf_view(&m), NULL), LF_OK);
    assert_int_equal(proto.model, LF_SPM_BPE);
    assert_false(proto.add_dummy_prefix || proto.remove_extra_whitespaces || proto.escape_whitespaces);
    assert_true(proto.byte_fallback && proto.whitespace_as_suffix);
    assert_true(lf_str_eq(proto.bos_piece, LF_STR("<b>")) && lf_str_eq(proto.eos_piece, LF_STR("<e>")));
    assert_true(lf_str_eq(proto.unk_surface, LF_STR("?")) && lf_str_eq(proto.charsmap, LF_STR("map")));
    assert_int_equal(proto.n_pieces, 1);

    struct lf_buf stripped;
    lf_buf_init(&stripped, 4096);
    assert_int_equal(lf_spm_proto_strip(&stripped, lf_buf_view(&m), NULL), LF_OK);
    assert_true(stripped.len < m.len);
    assert_int_equal(lf_spm_proto_read(&proto, lf_buf_view(&stripped), NULL), LF_OK);
    assert_true(proto.model == LF_SPM_BPE && proto.charsmap.len == 0 && proto.add_dummy_prefix);
    lf_buf_deinit(&stripped);
    lf_buf_deinit(&part);
    lf_buf_deinit(&m);
}

/* Cut anywhere, a model is refused or has fewer pieces; nothing behind its end is read. */
static void every_beginning_of_a_model_is_handled(void **state)
{
    (void)state;
    struct lf_buf m = start_model(true);
    put_piece(&m, LF_STR("\xe2\x96\x81word"), -1.5f, 1);
    put_trainer(&m, 2);
    put_rules(&m, (const uint32_t[]){0, 1, 2}, 3, LF_STR("x"), 12);
    int n_read = 0;
    for (size_t n = 0; n < m.len; n++) {
        struct lf_spm_proto proto;
        struct lf_err err = {0};
        enum lf_status status = read_bytes(&proto, m.ptr, n, &err);
        if (status == LF_OK) n_read++;
        if (status != LF_OK) assert_true(status == LF_CORRUPT && err.message[0] != 0);
    }
    assert_int_equal(n_read, 3); /* behind each piece and behind the trainer */
    lf_buf_deinit(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_fields_are_refused),
        cmocka_unit_test(what_the_fields_say_is_read),
        cmocka_unit_test(every_beginning_of_a_model_is_handled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
