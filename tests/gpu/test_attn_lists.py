#!/usr/bin/env python3
"""attn_lists.py: structures are the headers', a name that is no member is refused, and the lists that attn_map.c makes of a
step have every query row once for each KV head, whole and split. Needs neither a GPU nor torch.

    python3 tests/gpu/test_attn_lists.py [CC]"""
import sys
import unittest
from types import SimpleNamespace

import attn_lists as c

SHAPES = [(1, 5000, True), (70, 70, False), (16, 40000, True), (300, 33000, False), (3, 64, True)]  # tokens, keys, decode


class Lists(unittest.TestCase):
    lib = None

    def lists(self, heads, **more):
        store = SimpleNamespace(h=heads[0], hk=heads[1], d=128, tables=[])
        block = 0
        for _, kv_len, _ in SHAPES:
            n = -(-kv_len // c.E["LF_KV_BLOCK_TOKENS"])
            store.tables.append(list(range(block, block + n)))
            block += n
        entries = [(i, *shape) for i, shape in enumerate(SHAPES)]
        return store, c.task_lists(self.lib, store, entries, 0, 132, **more)

    def test_a_name_that_is_no_member_is_refused(self):
        seq = c.S["kv_seq"]()
        seq.n_tokens = 3
        with self.assertRaises(AttributeError):
            seq.n_rows = 3

    def test_sequences_are_what_was_asked(self):
        _, lists = self.lists((8, 2))
        self.assertEqual([(x.n_tokens, x.kv_len) for x in lists.seqs], [(n, kv) for n, kv, _ in SHAPES])
        self.assertEqual([x.first_token for x in lists.seqs], [0, 1, 71, 87, 387])

    def test_each_row_is_computed_once_over_all_its_keys(self):
        for heads in ((8, 2), (32, 8), (7, 1)):
            for split in (None, False, True):
                with self.subTest(heads=heads, split=split):
                    self.check_rows(heads, split)

    def check_rows(self, heads, split):
        store, lists = self.lists(heads, split=split)
        group = store.h // store.hk
        for tasks, is_decode in ((lists.prefill, False), (lists.decode, True)):
            keys = {}
            for t in tasks:
                for row in range(t.row, t.row + t.n_rows):
                    keys.setdefault((t.seq_idx, t.kv_head, row), []).append((t.key_lo, t.key_hi))
            want = {(i, head, row) for i, (n, _, decode) in enumerate(SHAPES) if decode == is_decode
                    for head in range(store.hk) for row in range(n * group)}
            self.assertEqual(set(keys), want)
            for (i, _, row), ranges in keys.items():
                n, kv_len, _ = SHAPES[i]
                ranges.sort()
                self.assertEqual(ranges[0][0], 0)
                self.assertTrue(all(a[1] == b[0] for a, b in zip(ranges, ranges[1:])))
                self.assertGreaterEqual(ranges[-1][1], kv_len - n + row // group + 1)
        cut = [t for t in (*lists.prefill, *lists.decode) if t.slot >= 0]
        self.assertEqual(bool(cut), split is not False)
        self.assertEqual(lists.n_partial, max((t.slot + t.n_rows for t in cut), default=0))


if __name__ == "__main__":
    Lists.lib = c.host_library(*sys.argv[1:2])
    unittest.main(argv=sys.argv[:1])
