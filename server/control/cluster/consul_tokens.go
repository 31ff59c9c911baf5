package cluster

import (
	"context"
	"iter"
	"slices"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/server/control/loop"
	"berth/server/control/workqueue"
	"berth/state"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
)

// Consul is what the loop does in Consul.
type Consul interface {
	// RevokeToken deletes a token. One that is gone is no error.
	RevokeToken(ctx context.Context, accessorID string) error
}

// ConsulTokenLoop revokes the tokens of ended allocations, and tokens that no task has got. The rows say
// which, so a new leader continues.
//
// It revokes the tokens of services in Consul.
type ConsulTokenLoop struct {
	loop.Common
	Consul Consul // nil: the servers use no Consul
	Retry  backoff.Backoff
}

// maxRevocations is the number of revocations in flight at once.
const maxRevocations = 16

// Run revokes tokens until ctx ends.
func (s ConsulTokenLoop) Run(ctx context.Context) {
	if s.Consul == nil {
		s.warnOfTokens()
		<-ctx.Done()
		return
	}
	s.runner().Run(ctx)
}

// warnOfTokens tells the operator of tokens that stay because the servers use Consul no longer.
func (s ConsulTokenLoop) warnOfTokens() {
	for range trust.RevokedSIToken(s.Store.Read()) {
		s.Logger.Warn("tokens in Consul are not revoked: the servers need a consul block with an address")
		return
	}
}

func (s ConsulTokenLoop) runner() workqueue.Runner {
	return workqueue.Runner{
		Name:     "si_tokens",
		Logger:   s.Logger,
		Store:    s.Store,
		Retry:    s.Retry,
		Parallel: workqueue.Always(maxRevocations),
		Topics:   []state.Topic{schema.RevokedSITokenRows},
		All:      revokedKeys,
		Read:     s.read,
		Keys: func(_ *state.ReadTx, c state.Change) iter.Seq[workqueue.Key] {
			return slices.Values([]workqueue.Key{c})
		},
	}
}

func revokedKeys(tx *state.ReadTx) iter.Seq[workqueue.Key] {
	return func(yield func(workqueue.Key) bool) {
		for t := range trust.RevokedSIToken(tx) {
			key := workqueue.Key{Topic: schema.RevokedSITokenRows}
			copy(key.Key[:], []string{t.AllocID, t.TaskName, t.AccessorID})
			if !yield(key) {
				return
			}
		}
	}
}

func (s ConsulTokenLoop) read(tx *state.ReadTx, k workqueue.Key) workqueue.Step {
	t := trust.SIToken(tx, k.Key[0], k.Key[1], k.Key[2])
	if t == nil || t.RevokeTime == 0 {
		return workqueue.Step{}
	}

	return workqueue.Step{
		Op:      "revoke",
		Version: t.ModifyIndex,
		Due:     s.Clock.Until(t.RevokeTime),
		Act: func(ctx context.Context) error {
			return s.revoke(ctx, t)
		},
	}
}

// revoke deletes the token and then its row. If this server fails in between, the next leader repeats both.
func (s ConsulTokenLoop) revoke(ctx context.Context, t *access.SITokenAccessor) error {
	err := s.Consul.RevokeToken(ctx, t.AccessorID)
	if err != nil {
		return err
	}
	_, err = fsm.Propose(ctx, s.Proposer, fsm.SITokensDeregister, &access.SITokenAccessors{
		Accessors:    []*access.SITokenAccessor{t},
		WriteOptions: structs.WriteOptions{Now: s.Clock.Now().UnixNano()},
	})
	return err
}
