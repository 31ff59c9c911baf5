package keys

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// Lead makes the first root key, and encrypts secrets again after a full rotation, while this server leads. A
// new leader goes on where the former one has ended, because the rows say which secrets are left.
func (k *Keys) Lead(ctx context.Context) {
	k.follow(ctx, k.lead)
}

// lead takes all steps that are due. It reports whether none is left.
func (k *Keys) lead(ctx context.Context) bool {
	tx := k.Store.Read()
	err := k.makeFirst(ctx, tx)
	if err == nil {
		// Each goes on without the other: a key that cannot be wrapped again may still be rekeyed.
		err = errors.Join(k.rewrapAll(ctx, tx), k.rekey(ctx, tx))
	}
	if ctx.Err() == nil {
		k.tell(err)
	}
	return err == nil && (trust.ActiveRootKey(tx) != nil || !k.Settings.IsSet())
}

// tell logs an error of the leader's work once, until the work succeeds or another error comes.
func (k *Keys) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	k.mu.Lock()

	// The work is tried every few seconds, and an operator may take days to copy a file.
	news := text != k.waits
	k.waits = text
	k.mu.Unlock()
	if news && err != nil {
		k.Logger.Warn("work on the root keys waits, retrying", "error", err)
	}
}

// makeFirst makes the first root key, if a key-encryption key is set and all servers hold it.
func (k *Keys) makeFirst(ctx context.Context, tx state.Reader) error {
	if trust.ActiveRootKey(tx) != nil || !k.Settings.IsSet() {
		return nil
	}
	_, _, err := k.add(ctx, "", false)
	return err
}

// Rotate makes another root key the active one. With full it has the secrets of all other keys encrypted
// again. The error is precondition if a server that is alive could not open the new key.
func (k *Keys) Rotate(ctx context.Context, full bool) (*cluster.RootKey, uint64, error) {
	was := ""
	if active := trust.ActiveRootKey(k.Store.Read()); active != nil {
		was = active.KeyID
	}
	return k.add(ctx, was, full)
}

// add makes a root key, which replaces the active one.
func (k *Keys) add(ctx context.Context, was string, full bool) (*cluster.RootKey, uint64, error) {
	kek, err := k.encrypter()
	if err != nil {
		return nil, 0, structs.Preconditionf("no root key is made: %w", err)
	}

	// A server that cannot open the new key would lose all new secrets when it leads.
	if err := k.checkServers(kek.ID()); err != nil {
		return nil, 0, structs.Preconditionf("no root key is made: %w", err)
	}

	id := structs.NewID()
	key := make([]byte, keyring.KeySize)
	defer clear(key)
	_, _ = rand.Read(key) // it never fails
	wrapped, err := kek.Wrap(ctx, id, key)
	if err != nil {
		return nil, 0, structs.Unavailablef("wrapping a root key: %w", err)
	}

	index, err := fsm.Propose(ctx, k.Proposer, fsm.RootKeyAdd, &cluster.RootKeyAddRequest{
		KeyID:   id,
		Wrapped: wrapped,
		KEK:     kek.ID(),
		Digest:  Digest(id, key),
		Was:     was,
		Full:    full,
		Now:     time.Now().UnixNano(),
	})
	if err != nil {
		return nil, index, err
	}

	k.Logger.Info("made a root key", "root_key", id, "kek", kek.ID(), "full", full)
	return trust.RootKey(k.Store.Read(), id), index, nil
}

// checkServers returns an error, of kind precondition, if a server that is alive does not hold the
// key-encryption key.
func (k *Keys) checkServers(kek string) error {
	var others []string
	for _, s := range k.Servers() {
		switch {
		case s.Self || s.KEK == kek:
		case s.KEK == "":
			others = append(others, s.Name+" has none")
		default:
			others = append(others, s.Name+" has "+s.KEK)
		}
	}

	if others == nil {
		return nil
	}

	return structs.Preconditionf("this server has key-encryption key %s, but %s. "+
		"Copy the file of server.keyring to each server", kek, strings.Join(others, ", "))
}

// The bounds of one entry with secrets that are encrypted again.
const (
	rekeyValues = 64
	rekeyBytes  = 256 << 10
)

// rekey encrypts the secrets of the keys that are rekeying with the active key, and makes these keys
// inactive. It returns an error if something is left.
func (k *Keys) rekey(ctx context.Context, tx state.Reader) error {
	left := map[string]bool{}
	for row := range trust.RootKeys(tx) {
		if row.State == cluster.RootKeyRekeying {
			left[row.KeyID] = true
		}
	}

	active := trust.ActiveRootKey(tx)
	if len(left) == 0 || active == nil {
		return nil
	}

	// Follow opens it on each server, also on this one, after the entry was applied.
	if k.Ring.Active() != active.KeyID {
		return structs.Unavailablef("this server has not opened root key %s yet", active.KeyID)
	}

	done, err := k.resealAll(ctx, tx, left)
	if err != nil {
		return err
	}

	// The state checks that no secret of the key is left, so a secret that was stored meanwhile makes the
	// entry fail, and the next round takes it.
	for id := range left {
		_, err := fsm.Propose(ctx, k.Proposer, fsm.RootKeyRekeyed, &cluster.RootKeyRekeyedRequest{KeyID: id})
		if err != nil {
			return err
		}

		k.Logger.Info("encrypted the secrets of a root key again", "root_key", id, "secrets", done)
	}

	return nil
}

// resealAll encrypts the secrets of some keys with the active one, and returns their number. A secret that
// cannot be opened stays with its key, and is an error after all others are done.
func (k *Keys) resealAll(ctx context.Context, tx state.Reader, left map[string]bool) (done int, err error) {
	batch := resealing{keys: k}
	var faults []error
	for v := range trust.SealedValues(tx) {
		if !left[v.Value.KeyID] {
			continue
		}

		err := batch.add(ctx, v)
		if err != nil && len(faults) < mostPlaces {
			faults = append(faults, err)
		}

		if ctx.Err() != nil {
			return batch.done, ctx.Err()
		}
	}

	faults = append(faults, batch.flush(ctx))
	return batch.done, errors.Join(faults...)
}

// resealing collects secrets that are encrypted again, and proposes them in entries of a bounded size.
type resealing struct {
	keys   *Keys
	values []cluster.ResealedValue
	bytes  int
	done   int
}

// add encrypts a secret with the active key. The plain secret is cleared.
func (b *resealing) add(ctx context.Context, v trust.SealedValue) error {
	secret, err := b.keys.Ring.Open(v.Place, v.Value)
	if err != nil {
		return err
	}

	sealed, err := b.keys.Ring.Seal(v.Place, secret)
	clear(secret)
	if err != nil {
		return err
	}

	b.values = append(b.values, cluster.ResealedValue{
		Table: v.Table,
		Key:   slices.Clone(v.Key),
		Place: v.Place,
		// The entry replaces only this value: one that a user stores meanwhile wins.
		Was:   trust.SealedDigest(v.Value),
		Value: *sealed,
	})
	b.bytes += len(sealed.Data)
	if len(b.values) < rekeyValues && b.bytes < rekeyBytes {
		return nil
	}

	return b.flush(ctx)
}

// flush proposes what is collected.
func (b *resealing) flush(ctx context.Context) error {
	if len(b.values) == 0 {
		return nil
	}
	_, err := fsm.Propose(ctx, b.keys.Proposer, fsm.Reseal, &cluster.ResealRequest{Values: b.values})
	if err != nil {
		return fmt.Errorf("storing secrets that are encrypted again: %w", err)
	}
	b.done += len(b.values)

	// The slice belongs to the entry now.
	b.values = nil
	b.bytes = 0
	return nil
}

// askTimeout bounds the wait for the status of another server.
const askTimeout = 2 * time.Second

// Closed returns the reasons why servers cannot open root keys: by the ID of the key, and by the name of the
// server.
func (k *Keys) Closed(ctx context.Context) map[string]map[string]string {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	servers := k.Servers()
	answers, faults := k.askAll(ctx, servers)
	closed := map[string]map[string]string{}
	for row := range trust.RootKeys(k.Store.Read()) {
		reasons := map[string]string{}
		for i, s := range servers {
			if faults[i] != nil {
				reasons[s.Name] = "the server did not answer: " + faults[i].Error()
			} else if reason := answers[i].Closed[row.KeyID]; reason != "" {
				reasons[s.Name] = reason
			}
		}

		if len(reasons) > 0 {
			closed[row.KeyID] = reasons
		}
	}

	return closed
}

// askAll returns the status of each server, or the fault of its answer.
func (k *Keys) askAll(
	ctx context.Context, servers []Server,
) (answers []cluster.KeyringStatus, faults []error) {
	answers = make([]cluster.KeyringStatus, len(servers))
	faults = make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		// The servers are asked at once, so that one that is away costs its timeout only once. Each goroutine
		// has its own element.
		wg.Go(func() {
			if s.Self {
				k.Status(&answers[i])
				return
			}

			answer, err := k.Ask(ctx, s.Address)
			faults[i] = err
			if err == nil {
				answers[i] = *answer
			}
		})
	}

	wg.Wait()

	return answers, faults
}
