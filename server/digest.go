package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/state"
	"berth/structs/cluster"
)

// digestEvery is the time between two comparisons of the states of the servers, and keptDigests the number
// that a server keeps: one that is late has the same entry later.
const (
	digestEvery = 10 * time.Minute
	keptDigests = 4
)

// digests has the digests of the state after some entries, at which all servers make one. Servers that have
// applied the same entries have the same state, so a difference is damage: of a disk or a memory, or a fault
// of berth.
type digests struct {
	logger hclog.Logger
	taken  chan taken

	mu   sync.Mutex
	last []digest // the newest last
}

type taken struct {
	index uint64
	tx    *state.ReadTx
}

type digest struct {
	index uint64
	sum   string
}

func newDigests(logger hclog.Logger) *digests {
	return &digests{logger: logger, taken: make(chan taken, 1)}
}

// take has the state after an entry digested, unless another one is being digested.
func (d *digests) take(index uint64, tx *state.ReadTx) {
	select {
	case d.taken <- taken{index, tx}:
	default:
	}
}

// run makes the digests until ctx ends.
func (d *digests) run(ctx context.Context) {
	for {
		select {
		case t := <-d.taken:
			sum, err := digestOf(ctx, t.tx)
			if err != nil {
				if ctx.Err() == nil {
					d.logger.Warn("failed to make a digest of the state", "error", err)
				}
				continue
			}
			d.mu.Lock()
			d.last = append(d.last, digest{t.index, sum})
			d.last = d.last[max(0, len(d.last)-keptDigests):]
			d.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// addTo adds the digests to what this server tells.
func (d *digests) addTo(settings map[string]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.last {
		settings[fmt.Sprint(cluster.StateAt, one.index)] = one.sum
	}
}

// digestOf returns the digest of what a snapshot of the state would have.
func digestOf(ctx context.Context, tx *state.ReadTx) (string, error) {
	sum := sha256.New()
	err := tx.Save(endingWriter{ctx, sum.Write})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// endingWriter writes until the context ends.
type endingWriter struct {
	ctx   context.Context
	write func([]byte) (int, error)
}

func (w endingWriter) Write(b []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, w.ctx.Err()
	}
	return w.write(b)
}
