// Package lookup keeps the answers of Consul and of the servers to the questions of templates up to date.
//
// One goroutine follows each question of the node by blocking queries, for all readers together. The last
// answer stays while a source is away, slow or broken: only its first answer is waited for.
package lookup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/semaphore"

	"berth/internal/backoff"
	"berth/structs"
)

// The bounds of a node.
const (
	// maxRequests bounds the requests in flight to a source. A Consul agent takes 200 connections of a
	// client.
	maxRequests = 100
	// maxAnswer bounds the bytes of an answer, and maxKept about the bytes of all.
	maxAnswer = 8 << 20
	maxKept   = 256 << 20
)

// The pace of queries.
const (
	// longWait is the time for which a source may wait for another answer. With more queries than requests in
	// flight, each gets shortWait.
	longWait  = time.Minute
	shortWait = 2 * time.Second
	// minPause is the least time between two answers to a query.
	minPause = 500 * time.Millisecond
	minRetry = time.Second
	maxRetry = 30 * time.Second
)

// Answer is the answer of a source.
type Answer struct {
	Value any // one of this package's values, or a list of them
	Index uint64
}

// Source answers queries.
type Source interface {
	// Lookup returns the answer once its index is above a given one, or after the wait.
	Lookup(ctx context.Context, q Query, after uint64, wait time.Duration) (*Answer, error)
}

// Config has the sources of a pool.
type Config struct {
	Consul  Source // nil: the node uses none
	Vault   Source // nil: the node uses none
	Servers Source
	Logger  hclog.Logger
	// ServersBack, if not nil, is announced when the servers can be reached again after a cut. It ends the
	// pauses of their queries, and not of Consul's, which depend on the node's Consul alone.
	ServersBack *backoff.Recovery
}

// Pool follows the queries of a node.
type Pool struct {
	logger  hclog.Logger
	consul  *origin // nil: the node uses none
	vault   *origin // nil: the node uses none
	servers *origin

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	views map[Query]*view
	kept  int // bytes of all answers
}

// origin is a source with its requests in flight.
type origin struct {
	Source
	slots *semaphore.Weighted
	back  *backoff.Recovery // nil: none is announced
}

func newOrigin(s Source, back *backoff.Recovery) *origin {
	if s == nil {
		return nil
	}
	return &origin{s, semaphore.NewWeighted(maxRequests), back}
}

// New makes a pool. It asks nothing before it has a reader.
func New(c Config) *Pool {
	p := &Pool{
		logger:  c.Logger,
		consul:  newOrigin(c.Consul, nil),
		vault:   newOrigin(c.Vault, nil),
		servers: newOrigin(c.Servers, c.ServersBack),
		views:   map[Query]*view{},
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Run ends the pool once ctx ends, and returns after the last of its goroutines.
func (p *Pool) Run(ctx context.Context) {
	<-ctx.Done()
	p.mu.Lock()
	// start checks the context under this lock, so no goroutine starts after the wait has begun.
	p.stop()
	p.mu.Unlock()
	p.running.Wait()
}

// State is what a node knows of a query.
type State struct {
	Value  any
	Digest string // of Value, "" as long as there was no answer
	Size   int    // of Value in bytes, about
	Err    error  // of the last request; the answer before it stays
}

// view follows a query. The mutex of the pool guards its state.
type view struct {
	q       Query
	state   State
	readers map[*Reader]bool
	stop    context.CancelFunc
}

// Reader reads answers. It has one user at a time.
type Reader struct {
	pool  *Pool
	woken chan struct{}
}

// NewReader makes a reader. It needs Keep(nil) in the end.
func (p *Pool) NewReader() *Reader { return &Reader{p, make(chan struct{}, 1)} }

// Woken receives a value after an answer has changed, or the error of a query without an answer.
func (r *Reader) Woken() <-chan struct{} { return r.woken }

// Read returns the state of a query, and follows it from now on. The error is a failed precondition for a
// node that has no such source.
func (r *Reader) Read(q Query) (State, error) {
	p := r.pool
	from := p.consul
	missing := "Consul; set consul.address"
	switch {
	case q.ofBerth():
		from = p.servers
	case q.ofVault():
		from = p.vault
		missing = "Vault; set vault.enabled"
	}

	if from == nil {
		return State{}, structs.Preconditionf("%s: this node uses no %s in the configuration of its agent", q,
			missing)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.views[q]
	if v == nil {
		v = &view{q: q, readers: map[*Reader]bool{}}
		p.views[q] = v
		p.start(v, from)
	}

	v.readers[r] = true
	return v.state, nil
}

// start follows a view. The caller holds p.mu.
func (p *Pool) start(v *view, from *origin) {
	var ctx context.Context
	ctx, v.stop = context.WithCancel(p.ctx)
	if ctx.Err() == nil { // Run waits for no goroutine that starts after its end
		p.running.Go(func() { p.follow(ctx, v, from) })
	}
}

// Keep stops following all queries but some.
func (r *Reader) Keep(some map[Query]bool) {
	p := r.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for q, v := range p.views {
		if some[q] || !v.readers[r] {
			continue
		}
		delete(v.readers, r)
		if len(v.readers) == 0 {
			v.stop()
			delete(p.views, q)
			p.kept -= v.state.Size

			// The goroutine of the view may still hold it. Its answer is dropped by store.
			v.state = State{}
		}
	}
}

// follow asks for a view again and again.
func (p *Pool) follow(ctx context.Context, v *view, from *origin) {
	pause := backoff.Backoff{Min: minRetry, Max: maxRetry}
	var index uint64
	for ctx.Err() == nil {
		// It is taken before the request, so that a recovery during the request is not missed.
		back := from.back.Next()
		answer, err := p.ask(ctx, v.q, from, index)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = p.store(v, answer.Value)
		}
		if err == nil {
			pause.Reset()
			index = nextIndex(index, answer.Index)

			// A service that changes all the time must not make each node ask all the time.
			backoff.Sleep(ctx, minPause)
		} else {
			p.fail(v, err)
			index = 0 // the source may have lost its state
			wait := pause.After(err)
			if structs.RetryAfter(err) == 0 { // else the pause has its jitter, and is not to be shorter
				wait -= rand.N(wait / 4) // the nodes of a cluster do not all ask at once
			}

			pause.SleepAfter(ctx, wait, err, back)
		}
	}
}

// nextIndex returns the index for the next query: 0, which waits for nothing, after one that goes backwards.
func nextIndex(last, now uint64) uint64 {
	if now < last {
		return 0
	}
	return now
}

// ask waits for its turn and for the answer.
func (p *Pool) ask(ctx context.Context, q Query, from *origin, index uint64) (*Answer, error) {
	err := from.slots.Acquire(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer from.slots.Release(1)
	wait := longWait
	p.mu.Lock()

	// The queries take turns, so each must end soon for the others to have theirs.
	if len(p.views) > maxRequests {
		wait = shortWait
	}
	p.mu.Unlock()
	return from.Lookup(ctx, q, index, wait)
}

// store keeps an answer, and wakes the readers if it is another one.
func (p *Pool) store(v *view, value any) error {
	text, err := json.Marshal(value)
	switch {
	case err != nil:
		return structs.Unavailablef("%s: %w", v.q, err)
	case len(text) > maxAnswer:
		return structs.Preconditionf("%s: the answer has %d bytes; at most %d are allowed",
			v.q, len(text), maxAnswer)
	}

	// Readers compare digests, which cost less than values and do not keep these in memory.
	sum := sha256.Sum256(text)
	now := State{
		Value:  value,
		Digest: hex.EncodeToString(sum[:]),
		Size:   len(text),
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.views[v.q] != v {
		return nil // its last reader has gone
	}

	kept := p.kept + now.Size - v.state.Size

	// The templates of all jobs on the node share the memory of the agent.
	if kept > maxKept {
		return structs.Preconditionf(
			"%s: the answers for the templates of this node have more than %d bytes", v.q, maxKept)
	}

	p.kept = kept
	if v.state.Err != nil && v.state.Digest != "" {
		p.logger.Info("a query of templates is answered again", "query", v.q.String())
	}

	changed := v.state.Digest != now.Digest
	v.state = now
	if changed {
		v.wake()
	}

	return nil
}

// fail notes an error.
func (p *Pool) fail(v *view, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v.state.Err == nil {
		p.logger.Warn("failed to answer a query of templates, keeping the last answer and retrying",
			"query", v.q.String(), "error", err)
	}

	// A reader that has an answer goes on with it. Without one it tells its user of each other error.
	first := v.state.Err == nil || v.state.Err.Error() != err.Error()
	v.state.Err = err
	if first && v.state.Digest == "" {
		v.wake()
	}
}

// wake wakes the readers of a view. The caller holds the mutex of the pool.
func (v *view) wake() {
	for r := range v.readers {
		select {
		case r.woken <- struct{}{}:
		default: // it is woken already
		}
	}
}
