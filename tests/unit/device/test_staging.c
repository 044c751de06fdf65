#include "tests/support/test.h"

#include "core/check.h"
#include "device/cuda/staging.h"

enum { SEGMENT = 1024, N_SEGMENTS = 3 };

static void small_pieces_lie_one_behind_the_other_at_multiples_of_64(void **state)
{
    (void)state;
    struct lf_staging ring;
    lf_staging_init(&ring, SEGMENT, N_SEGMENTS);
    struct lf_staging_piece a = lf_staging_take(&ring, 1), b = lf_staging_take(&ring, 65),
                            c = lf_staging_take(&ring, 64);
    assert_true(a.enters && !b.enters && !c.enters);
    assert_true(!a.leaves && !b.leaves && !c.leaves);
    assert_int_equal(a.offset, 0);
    assert_int_equal(a.bytes, 1);
    assert_int_equal(b.offset, 64);
    assert_int_equal(b.bytes, 65);
    assert_int_equal(c.offset, 192);
}

static void a_piece_ends_where_its_segment_does(void **state)
{
    (void)state;
    struct lf_staging ring;
    lf_staging_init(&ring, SEGMENT, N_SEGMENTS);
    (void)lf_staging_take(&ring, 100);
    struct lf_staging_piece rest = lf_staging_take(&ring, 5000);
    assert_int_equal(rest.offset, 128);
    assert_int_equal(rest.bytes, SEGMENT - 128);
    assert_true(rest.leaves && !rest.enters);
    struct lf_staging_piece next = lf_staging_take(&ring, 5000 - rest.bytes);
    assert_true(next.enters && next.leaves);
    assert_int_equal(next.segment, 1);
    assert_int_equal(next.offset, SEGMENT);
    assert_int_equal(next.bytes, SEGMENT);
}

static void a_piece_that_fills_up_by_its_padding_leaves_too(void **state)
{
    (void)state;
    struct lf_staging ring;
    lf_staging_init(&ring, SEGMENT, N_SEGMENTS);
    struct lf_staging_piece p = lf_staging_take(&ring, SEGMENT - 3);
    assert_true(p.enters && p.leaves);
    assert_int_equal(p.bytes, SEGMENT - 3);
    assert_int_equal(lf_staging_take(&ring, 1).segment, 1);
}

static void every_byte_of_every_segment_is_used_in_turn(void **state)
{
    (void)state;
    struct lf_staging ring;
    lf_staging_init(&ring, SEGMENT, N_SEGMENTS);
    for (size_t at = 0; at < 2 * SEGMENT * N_SEGMENTS; at += LF_STAGING_ALIGN) {
        struct lf_staging_piece p = lf_staging_take(&ring, LF_STAGING_ALIGN);
        assert_int_equal(p.offset, at % (SEGMENT * N_SEGMENTS));
        assert_int_equal(p.bytes, LF_STAGING_ALIGN);
        assert_int_equal(p.enters, at % SEGMENT == 0);
        assert_int_equal(p.leaves, (at + LF_STAGING_ALIGN) % SEGMENT == 0);
    }
}

/* What the copy engine may still read: bytes from a piece until its segment's mark is waited for. A piece never touches
 * such bytes, marks are waited for once and in turn, and no byte of an upload is lost. */
static void random_uploads_never_overwrite_what_is_on_its_way(void **state)
{
    (void)state;
    struct lf_staging ring;
    bool in_flight[SEGMENT * N_SEGMENTS] = {false}, marked[N_SEGMENTS] = {false};
    uint64_t seed = 1;
    lf_staging_init(&ring, SEGMENT, N_SEGMENTS);
    for (int upload = 0; upload < 20000; upload++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t left = (seed >> 33) % (upload % 10 ? 300 : 5000) + 1;
        while (left > 0) {
            struct lf_staging_piece p = lf_staging_take(&ring, left);
            assert_true(p.bytes > 0 && p.bytes <= left && p.offset % LF_STAGING_ALIGN == 0);
            assert_true(p.offset / SEGMENT == (size_t)p.segment &&
                        p.offset + p.bytes <= ((size_t)p.segment + 1) * SEGMENT);
            if (p.enters) { /* the device is done with all of the segment */
                assert_true(marked[p.segment] || upload < 100);
                memset(in_flight + (size_t)p.segment * SEGMENT, 0, SEGMENT);
                marked[p.segment] = false;
            }
            assert_false(marked[p.segment]);
            for (size_t i = p.offset; i < p.offset + p.bytes; i++) {
                assert_false(in_flight[i]);
                in_flight[i] = true;
            }
            if (p.leaves) marked[p.segment] = true;
            left -= p.bytes;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_pieces_lie_one_behind_the_other_at_multiples_of_64),
        cmocka_unit_test(a_piece_ends_where_its_segment_does),
        cmocka_unit_test(a_piece_that_fills_up_by_its_padding_leaves_too),
        cmocka_unit_test(every_byte_of_every_segment_is_used_in_turn),
        cmocka_unit_test(random_uploads_never_overwrite_what_is_on_its_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
