"""Documents with facts hidden in book text, followed by a chat that asks for them; as token ids and loss weights."""
import random, re, numpy as np, sentencepiece as spm
from facts import *

class Maker:
    def __init__(self, model, books, seed, split='train'):
        self.sp = spm.SentencePieceProcessor(model_file=model)
        self.r = random.Random(seed)
        lines = open(books).read().split('\n')
        cut = [l for i, l in enumerate(lines) if (i % 20 == 7) == (split == 'eval')]
        # sentences, tokenized once; each begins with its own word boundary, so pieces join as the whole text would
        sents = [s for l in cut for s in re.split(r'(?<=[.!?;])\s+', l) if s]
        ids = self.sp.encode(sents)
        self.sent = [np.array(x, np.int16) for x in ids]
        self.n = np.array([len(x) for x in self.sent])
        self.BOS, self.EOS, self.IM, self.END = 1, 2, self.sp.piece_to_id('<|im_start|>'), self.sp.piece_to_id('<|im_end|>')
        nl = self.sp.encode('a\nb'); self.NL = self.sp.piece_to_id('<0x0A>'); assert self.NL in nl
        self.USER = [self.IM] + self.strip('user') + [self.NL]; self.ASSIST = [self.IM] + self.strip('assistant') + [self.NL]
    def strip(self, t):
        """Ids of t as they stand right after a newline or a special token (no word-boundary mark)."""
        ids = self.sp.encode('\n' + t); i = ids.index(self.NL) if hasattr(self, 'NL') else ids.index(self.sp.piece_to_id('<0x0A>'))
        return ids[i + 1:]
    def haystack(self, n):
        """A list of sentences, as ids, of about n tokens, with paragraph breaks."""
        r, out, tot = self.r, [], 0
        while tot < n:
            i, run = r.randrange(len(self.sent)), r.randint(3, 60)
            first = True
            for j in range(i, min(i + run, len(self.sent))):
                s = self.sent[j]
                out.append(s); tot += len(s)
                if tot >= n: break
                if r.random() < .12: out.append(None); tot += 1
            out.append(None)
        return out
    def para(self, items):
        """Join sentences (ids with a leading word mark) and None for paragraph breaks into one id list."""
        ids, fresh = [], True
        for s in items:
            if s is None:
                ids.append(self.NL); fresh = True; continue
            s = s.tolist() if isinstance(s, np.ndarray) else s
            if fresh: s = self.fresh(s)
            ids.extend(s); fresh = False
        return ids
    def fresh(self, s):
        key = tuple(s[:1]); c = self.__dict__.setdefault('_f', {})
        if key not in c:
            p = self.sp.id_to_piece(int(s[0]))
            t = p[1:] if p.startswith('\u2581') else p
            c[key] = (self.strip(t) if t else []) 
        return c[key] + list(s[1:])
    def sample(self, L, want_q=None, w_text=.1, n_facts=None, unanswerable=.1):
        """L+1 token ids and the weights of their losses; and the places of the answers, for a test."""
        r = self.r
        nq = want_q or max(3, min(64, int(L ** .5 / 4) + r.randint(0, 4)))
        budget = L - 52 * nq - 32
        doc_n = budget if want_q else int(budget * (1 if r.random() < .7 else r.uniform(.2, 1)))
        nf = n_facts or int(np.exp(r.uniform(np.log(3), np.log(max(6, doc_n / 40)))))
        facts = [Fact(r) for _ in range(nf)]
        fids = self.sp.encode([f.state(r) for f in facts])
        hay = self.haystack(max(16, doc_n - sum(map(len, fids))))
        spots = sorted(r.randint(0, len(hay)) for _ in facts)
        items, at = [], 0
        for f, p in zip(fids, spots):
            items += hay[at:p]; at = p
            if r.random() < .3: items.append(None)
            items.append(f)
            if r.random() < .3: items.append(None)
        items += hay[at:]
        doc = self.para(items)
        while len(doc) > doc_n:                   # cut book sentences, never facts, down to the budget
            over = len(doc) - doc_n
            for i in range(len(items) - 1, -1, -1):
                if over <= 0: break
                if isinstance(items[i], np.ndarray): over -= len(items[i]); items[i] = False
            items = [x for x in items if x is not False]; doc = self.para(items)
        sysp = r.random() < .15
        ids, w, marks = [self.BOS], [0.], []
        def put(x, wt): ids.extend(x); w.extend([wt] * len(x))
        chat_first = r.random() < .08
        plain = r.random() < .25 and not chat_first
        def turn(q, a, lead=None):
            if plain:
                if lead is not None: put(lead, w_text); put([self.NL, self.NL], 0.)
                put(self.strip('Question: ' + q), 0.); put([self.NL], 0.); put(self.strip('Answer:'), 0.)
                s = len(ids); put(self.sp.encode(a) + [self.EOS], 1.); marks.append((s, len(ids))); put([self.NL, self.NL], 0.); return
            put(self.USER, 0.)
            if lead is not None: put(lead, w_text); put([self.NL, self.NL] if r.random() < .7 else [self.NL], 0.)
            put(self.strip(q), 0.); put([self.END, self.NL], 0.); put(self.ASSIST, 0.)
            s = len(ids); put(self.strip(a) + [self.END], 1.); marks.append((s, len(ids))); put([self.NL], 0.)
        if chat_first: turn(r.choice(CHAT[0][0]), CHAT[0][1])
        lead = self.strip('Document:') + [self.NL] + doc if r.random() < .2 else doc
        asked = []
        for i in range(nq):
            u = r.random()
            if u < unanswerable:
                x = Fact(r); q, a = x.ask(r), NONE; d = -1
                if r.random() < .5:   # ask another thing of a subject that is there
                    y = r.choice(facts); x.rel, x.s = (y.rel, x.s) if r.random() < .5 else (x.rel, x.s); q = x.ask(r) if x.rel == y.rel else q
            elif u < unanswerable + .02: c = r.choice(CHAT); q, a, d = r.choice(c[0]), c[1], -2
            else: j = r.randrange(len(facts)); q, a, d = facts[j].ask(r), facts[j].answer(), j
            turn(q, a, lead if i == 0 else None); asked.append(d)
            if len(ids) > L: break
        ids, w = ids[:L + 1], w[:L + 1]
        pad = L + 1 - len(ids)
        if pad: ids += [self.EOS] * pad; w += [0.] * pad
        return np.array(ids, np.int16), np.array(w, np.float16), [m for m in marks if m[1] <= L + 1], asked
if __name__ == '__main__':
    import time
    m = Maker('corpus/demo.model', 'corpus/books.txt', 1)
    print(len(m.sent), m.n.sum())
    t = time.time(); k = [m.sample(1024) for _ in range(200)]; print((time.time() - t) / 200 * 1e3, 'ms/sample 1024')
    ids, w, marks, asked = k[3]
    print(m.sp.decode([int(i) for i in ids])[-1500:])
    print([(m.sp.decode([int(i) for i in ids[a:b]])) for a, b in marks])
    print(np.mean([x[1].sum() for x in k]), np.mean([len(x[2]) for x in k]))
    t = time.time(); m.sample(131072); print(time.time() - t, 's 131072')
