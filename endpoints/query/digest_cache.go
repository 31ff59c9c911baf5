package query

import (
	"hash/maphash"
	"sync"
	"time"

	"berth/internal/codec"
	"berth/structs"
)

// known remembers what blocking reads were answered, as digests, so that somebody who asks again with the
// index of an answer waits until that very answer has changed. The index of an answer is that of the tables
// it was read from (structs.QueryMeta), and tables change all the time; without this, who asks again in a
// busy cluster would be answered at once, always the same. Rows that were deleted change the digest, too.
//
// It may forget: then a question is answered too early, never too late.
type known struct {
	seed maphash.Seed

	mu        sync.Mutex
	now, past map[uint64]*stretch // by question; past is given up when now is full
}

// stretch says that the answer had the digest from one index to another, and how long it took last to look.
type stretch struct {
	digest, from, to uint64
	took             time.Duration
}

// keptAnswers is how many answers are remembered at least.
const keptAnswers = 1 << 14

func newKnown() *known {
	return &known{seed: maphash.MakeSeed(), now: map[uint64]*stretch{}, past: map[uint64]*stretch{}}
}

// digest is a number that stands for values.
func (k *known) digest(values ...any) uint64 {
	d := k.digester()
	for _, v := range values {
		d.add(v)
	}
	return d.Sum64()
}

// digester makes a digest of values that come one after the other.
type digester struct {
	maphash.Hash
	buf []byte
}

func (k *known) digester() *digester {
	d := new(digester)
	d.SetSeed(k.seed)
	return d
}

func (d *digester) add(value any) {
	b, err := codec.Append(d.buf[:0], value)
	if err != nil {
		panic(err) // what is answered can be sent
	}
	d.buf = b
	_, _ = d.Write(b) // never fails
}

// question is the digest of a request, whatever it says of how to wait.
func (k *known) question(req Request) uint64 {
	q := req.options()
	whole := *q
	defer func() { *q = whole }()
	q.MinIndex, q.MaxWait, q.AllowStale, q.Forwarded, q.AuthToken = 0, 0, false, false, ""
	return k.digest(req.Method, req.Body)
}

// answer is the digest of an answer or of the error in its place. Rows that are yet to be made are made, one after
// the other.
func (k *known) answer(resp any, err error) (uint64, error) {
	if err != nil {
		return k.digest(structs.ErrorToWire(err)), err
	}
	d := k.digester()
	if rows := MetaOf(resp).Rows; rows != nil {
		err = rows(func(row any) error {
			d.add(row)
			return nil
		})
	}
	d.add(resp)
	return d.Sum64(), err
}

// same reports whether the answer to a question was the same at an index.
func (k *known) same(question, digest, at uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.find(question)
	return s != nil && s.digest == digest && s.from <= at && at <= s.to
}

// took is how long it took last to find the answer to a question; 0 where that is not known.
func (k *known) took(question uint64) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.find(question); s != nil {
		return s.took
	}
	return 0
}

// learn keeps that the answer to a question is as the stretch says.
func (k *known) learn(question uint64, is stretch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.find(question); s != nil && s.digest == is.digest {
		s.from, s.to, s.took = min(s.from, is.from), max(s.to, is.to), is.took
		return
	}
	k.keep(question, &is)
}

func (k *known) find(question uint64) *stretch {
	if s := k.now[question]; s != nil {
		return s
	}
	s := k.past[question]
	if s != nil {
		k.keep(question, s)
	}
	return s
}

func (k *known) keep(question uint64, s *stretch) {
	if len(k.now) >= keptAnswers {
		k.now, k.past = map[uint64]*stretch{}, k.now
	}
	k.now[question] = s
}
