#include "core/mix.h"
#include "kv/tiers/disk_record.h"
#include "tests/support/test.h"

static void random_record(struct lf_disk_record *r)
{
    for (size_t i = 0; i < sizeof(*r); i++) ((uint8_t *)r)[i] = (uint8_t)lf_random64(7, i);
    r->sequence = 0x0102030405060708;
}

static void a_record_comes_back(void **state)
{
    (void)state;
    struct lf_disk_record r, back;
    uint8_t bytes[LF_DISK_RECORD_BYTES];
    random_record(&r);
    lf_disk_record_encode(&r, 5, bytes);
    assert_int_equal(lf_disk_record_decode(&back, 5, bytes), LF_DISK_RECORD_WHOLE);
    assert_int_equal(back.sequence, r.sequence);
    assert_memory_equal(&back.key, &r.key, sizeof(r.key));
    assert_memory_equal(&back.prev, &r.prev, sizeof(r.prev));
    assert_memory_equal(back.ids, r.ids, sizeof(r.ids));
    assert_memory_equal(back.data_sha, r.data_sha, sizeof(r.data_sha));
    assert_int_equal(back.block_bytes, r.block_bytes);
    assert_true(back.origin.tenant == r.origin.tenant && back.origin.depth == r.origin.depth);
}

/* The places that the header names, so that another program can read what this one wrote. */
static void the_bytes_lie_where_the_format_says(void **state)
{
    (void)state;
    struct lf_disk_record r;
    uint8_t bytes[LF_DISK_RECORD_BYTES], sha[LF_SHA256_BYTES];
    random_record(&r);
    r.ids[0] = 0x11223344;
    r.ids[63] = -2;
    r.block_bytes = 0xca000;
    r.origin = (struct lf_prefix_origin){.tenant = 0x8877665544332211, .depth = 0x00012340};
    lf_disk_record_encode(&r, 0x0a0b, bytes);
    assert_memory_equal(bytes, "LFKVrec1\x0b\x0a\0\0\0\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01", 24);
    assert_memory_equal(bytes + 24, r.key.bytes, 32);
    assert_memory_equal(bytes + 56, r.prev.bytes, 32);
    assert_memory_equal(bytes + 88, "\x44\x33\x22\x11", 4);
    assert_memory_equal(bytes + 340, "\xfe\xff\xff\xff", 4);
    assert_memory_equal(bytes + 344, r.data_sha, 32);
    assert_memory_equal(bytes + 376, "\x00\xa0\x0c\0\0\0\0\0", 8);
    assert_memory_equal(bytes + 384, "\x11\x22\x33\x44\x55\x66\x77\x88\x40\x23\x01\x00", 12);
    for (int i = 396; i < 480; i++) assert_int_equal(bytes[i], 0);
    lf_sha256(bytes, 480, sha);
    assert_memory_equal(bytes + 480, sha, 32);
}

static void every_flipped_bit_breaks_it(void **state)
{
    (void)state;
    struct lf_disk_record r, back;
    uint8_t bytes[LF_DISK_RECORD_BYTES];
    random_record(&r);
    lf_disk_record_encode(&r, 5, bytes);
    for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(lf_disk_record_decode(&back, 5, bytes), LF_DISK_RECORD_BROKEN);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

/* With a checksum that is right each of these could come from a program that is wrong. */
static void what_is_no_record_is_told_apart(void **state)
{
    (void)state;
    struct lf_disk_record r, back;
    uint8_t bytes[LF_DISK_RECORD_BYTES] = {0};
    assert_int_equal(lf_disk_record_decode(&back, 5, bytes), LF_DISK_RECORD_EMPTY);
    random_record(&r);
    lf_disk_record_encode(&r, 5, bytes);
    assert_int_equal(lf_disk_record_decode(&back, 6, bytes), LF_DISK_RECORD_BROKEN); /* another's place */
    r.sequence = 0;
    lf_disk_record_encode(&r, 5, bytes);
    assert_int_equal(lf_disk_record_decode(&back, 5, bytes), LF_DISK_RECORD_BROKEN);
    r.sequence = 1;
    lf_disk_record_encode(&r, 5, bytes);
    bytes[7] = '2'; /* of another version */
    lf_sha256(bytes, 480, bytes + 480);
    assert_int_equal(lf_disk_record_decode(&back, 5, bytes), LF_DISK_RECORD_BROKEN);
}

static void slots_are_whole_pages(void **state)
{
    (void)state;
    assert_int_equal(lf_disk_slot_bytes(1), 4096);
    assert_int_equal(lf_disk_slot_bytes(4096), 4096);
    assert_int_equal(lf_disk_slot_bytes(4097), 8192);
    assert_int_equal(lf_disk_slot_bytes((uint64_t)5 << 32), (uint64_t)5 << 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_comes_back),         cmocka_unit_test(the_bytes_lie_where_the_format_says),
        cmocka_unit_test(every_flipped_bit_breaks_it), cmocka_unit_test(what_is_no_record_is_told_apart),
        cmocka_unit_test(slots_are_whole_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
