package query

import (
	"hash/maphash"
	"sync"
	"time"

	"berth/internal/codec"
	"berth/structs"
)

// digestCache keeps the digests of answers to blocking queries. A caller that repeats a query with the index
// of an answer then waits until that answer has changed. An answer has the index of its tables
// (structs.QueryMeta), and tables change all the time: without the cache a busy cluster would answer at once
// with the same answer. A deleted row also changes the digest.
//
// The cache may lose entries. A query is then answered too early, never too late.
type digestCache struct {
	seed maphash.Seed

	mu sync.Mutex
	// By request. When now is full it becomes past, and past is dropped.
	now  map[uint64]*validRange
	past map[uint64]*validRange
}

// validRange records that an answer had the digest from one index to another, and how long it took to read.
type validRange struct {
	digest   uint64
	from, to uint64
	took     time.Duration
}

// keptAnswers is the least number of answers that the cache keeps.
const keptAnswers = 1 << 14

func newDigestCache() *digestCache {
	return &digestCache{
		seed: maphash.MakeSeed(),
		now:  map[uint64]*validRange{},
	}
}

// digester makes a digest of a sequence of values.
type digester struct {
	maphash.Hash
	buf []byte
}

func (c *digestCache) digester() *digester {
	d := new(digester)
	d.SetSeed(c.seed)
	return d
}

func (d *digester) addValue(value any) {
	b, err := codec.Append(d.buf[:0], value)
	if err != nil {
		panic(err) // an answer always encodes
	}
	d.buf = b
	_, _ = d.Write(b) // never fails
}

// requestKey returns the digest of a request without the options of the wait.
func (c *digestCache) requestKey(req Request) uint64 {
	q := req.options()
	whole := *q
	defer func() { *q = whole }()
	q.MinIndex = 0
	q.MaxWait = 0
	q.AllowStale = false
	q.Forwarded = false
	d := c.digester()
	d.addValue(req.Method)
	d.addValue(req.Body)
	return d.Sum64()
}

// answerDigest returns the digest of an answer, or of the error in its place. It makes the rows of a stream
// one after another.
func (c *digestCache) answerDigest(resp any, err error) (uint64, error) {
	d := c.digester()
	if err != nil {
		d.addValue(structs.ErrorToWire(err))
		return d.Sum64(), err
	}
	if rows := MetaOf(resp).Rows; rows != nil {
		err = rows(func(row any) error {
			d.addValue(row)
			return nil
		})
	}
	d.addValue(resp)
	return d.Sum64(), err
}

// known returns the range of the last answer to a request. It is empty if the cache has none.
func (c *digestCache) known(request uint64) validRange {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.find(request); r != nil {
		return *r
	}
	return validRange{}
}

// holds reports whether the answer had a digest at an index.
func (r validRange) holds(digest, index uint64) bool {
	return r.digest == digest && r.from <= index && index <= r.to
}

// record keeps the range of the answer to a request. It extends the known range if the digest is the same.
func (c *digestCache) record(request uint64, is validRange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.find(request)
	if r == nil || r.digest != is.digest {
		c.keep(request, &is)
		return
	}
	r.from = min(r.from, is.from)
	r.to = max(r.to, is.to)
	r.took = is.took
}

func (c *digestCache) find(request uint64) *validRange {
	if r := c.now[request]; r != nil {
		return r
	}
	r := c.past[request]
	if r != nil {
		c.keep(request, r)
	}
	return r
}

func (c *digestCache) keep(request uint64, r *validRange) {
	if len(c.now) >= keptAnswers {
		c.past = c.now
		c.now = map[uint64]*validRange{}
	}
	c.now[request] = r
}
