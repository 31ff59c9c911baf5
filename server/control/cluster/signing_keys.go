package cluster

import (
	"context"
	"slices"
	"time"

	"berth/fsm"
	"berth/internal/idtoken"
	"berth/server/control/loop"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
)

const (
	// longestSigningPause bounds the wait for the next step: the cluster time may be stepped meanwhile.
	longestSigningPause = time.Minute
	// signingAfterFault is the pause after a step that failed. The root key is opened soon after its row is
	// stored.
	signingAfterFault = time.Second
	// keptSigningChanges is the number of changed rows that are kept between two looks.
	keptSigningChanges = 64
)

// SigningKeyLoop makes, replaces and removes the signing keys.
//
// It has the cluster hold keys with which it signs the identities of workloads, while this
// server leads. It makes the first keys, and replaces them when they are old, and after an operator has made
// another root key.
//
// A key is published before it signs, and it is published until the last identity that it signed has ended.
// So whoever verifies identities knows their keys, also with the answer of an earlier request.
type SigningKeyLoop struct {
	loop.Common
	RotateAfter time.Duration
}

// Run keeps the keys until ctx ends. It tells each fault once.
func (l SigningKeyLoop) Run(ctx context.Context) {
	// The subscription is before the first read.
	feed := l.Store.Subscribe(keptSigningChanges, schema.SigningKeyRows, schema.RootKeyRows)
	defer feed.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()

	told := ""
	used := &signingUse{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-feed.Ready():
			feed.TakeChanges()
		}

		wait, err := l.step(ctx, used)
		text := ""
		if err != nil {
			text = err.Error()
		}
		// Unavailable: the root key is not open yet. Precondition: a server is too old to know signing keys.
		quiet := structs.IsKind(err, structs.KindUnavailable) || structs.IsKind(err, structs.KindPrecondition)
		if err != nil && text != told && !quiet && ctx.Err() == nil {
			l.Logger.Warn("work on the signing keys waits, retrying", "error", err)
		}
		told = text
		timer.Reset(wait)
	}
}

// step takes a step that is due and returns how long to wait for the next one.
func (l SigningKeyLoop) step(ctx context.Context, used *signingUse) (wait time.Duration, err error) {
	tx := l.Store.Read()
	root := trust.ActiveRootKey(tx)
	// Without a root key there is nothing to encrypt with.
	if root == nil {
		return longestSigningPause, nil
	}

	r := signingRules{
		now:         l.Clock.Now(),
		clock:       l.Clock,
		rotateAfter: l.RotateAfter,
		rootIndex:   root.CreateIndex,
		needed:      func(k *access.SigningKey) bool { return used.needs(tx, k) },
	}
	s, wait := r.next(slices.Collect(trust.SigningKeys(tx)))
	if s == (signingStep{}) {
		return wait, nil
	}
	err = l.take(ctx, s, root.KeyID)
	if err != nil {
		return signingAfterFault, err
	}
	return 0, nil
}

// take takes a step.
func (l SigningKeyLoop) take(ctx context.Context, s signingStep, rootID string) error {
	now := l.Clock.Now().UnixNano()
	switch {
	case s.add != "":
		return l.add(ctx, s.add, rootID)
	case s.activate != "":
		_, err := fsm.Propose(ctx, l.Proposer, fsm.SigningKeyActivate,
			&access.KeyActivateRequest{KeyID: s.activate, Now: now})
		if err == nil {
			l.Logger.Info("a signing key of identities signs from now on", "key", s.activate)
		}
		return err
	}
	_, err := fsm.Propose(ctx, l.Proposer, fsm.SigningKeyRemove, &access.KeyRemoveRequest{KeyID: s.remove})
	if err == nil {
		l.Logger.Info("removed a signing key whose identities have ended", "key", s.remove)
	}
	return err
}

// add makes a key.
func (l SigningKeyLoop) add(ctx context.Context, algorithm, rootID string) error {
	if l.Keys.Active() != rootID {
		return structs.Unavailablef("this server has not opened root key %s yet", rootID)
	}

	public, private, err := idtoken.Generate(algorithm)
	if err != nil {
		return structs.Internalf("making a signing key: %w", err)
	}
	defer clear(private)
	id := structs.NewID()
	sealed, err := l.Keys.Seal(access.SigningKeyPlace(id), private)
	if err != nil {
		return err
	}

	_, err = fsm.Propose(ctx, l.Proposer, fsm.SigningKeyAdd, &access.KeyAddRequest{
		Key: &access.SigningKey{
			KeyID:     id,
			Algorithm: algorithm,
			PublicKey: public,
			Private:   sealed,
		},
		Now: l.Clock.Now().UnixNano(),
	})
	if err == nil {
		l.Logger.Info("made a signing key of identities", "key", id, "algorithm", algorithm)
	}
	return err
}
