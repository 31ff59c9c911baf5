package keys

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/state"
	"berth/structs"
)

// Server is a server of the cluster that is alive.
type Server struct {
	Name    string
	Address string // of its RPC
	KEK     string // the fingerprint of its key-encryption key, "" for none
	Self    bool
}

// Deps are what the package needs of its server.
type Deps struct {
	Settings Settings
	Ring     *keyring.Ring
	Store    *state.Store
	Proposer fsm.Proposer
	Servers  func() []Server
	// Ask returns the root keys that another server cannot open.
	Ask func(ctx context.Context, address string) (*structs.KeyringStatus, error)
	// Announce tells the other servers the fingerprint of the key-encryption key of this one.
	Announce func(kek string)
	Logger   hclog.Logger
	// Retry is the time between two attempts, 0 for retryInterval.
	Retry time.Duration
}

// Keys are the root keys on one server. It is safe for concurrent use.
type Keys struct {
	Deps

	mu     sync.Mutex
	kek    encrypter         // nil: not set, or not read yet
	kekErr error             // of the last read
	closed map[string]string // why a root key is not open, by its ID
	said   map[string]bool   // the causes that the log has
	waits  string            // the error of the leader's work that the log has
}

// retryInterval is the time between two attempts to open the root keys, and to make the first one.
const retryInterval = 5 * time.Second

// New reads the key-encryption key. It fails, with kind precondition, only if other users can read its file.
// A key that is absent or damaged is told later, and read again from time to time.
func New(d Deps) (*Keys, error) {
	if d.Retry == 0 {
		d.Retry = retryInterval
	}
	k := &Keys{
		Deps:   d,
		closed: map[string]string{},
		said:   map[string]bool{},
	}
	k.kek, k.kekErr = d.Settings.open()
	if errors.Is(k.kekErr, keyring.ErrOpenToOthers) {
		return nil, structs.Preconditionf("server.keyring: %w", k.kekErr)
	}
	return k, nil
}

// KEK returns the fingerprint of the key-encryption key, "" for none.
func (k *Keys) KEK() string {
	kek, _ := k.encrypter()
	if kek == nil {
		return ""
	}
	return kek.ID()
}

// encrypter returns the key-encryption key. It reads the file again if that has failed. The error says why
// there is none.
func (k *Keys) encrypter() (encrypter, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kek != nil {
		return k.kek, nil
	}
	k.kek, k.kekErr = k.Settings.open()
	switch {
	case k.kekErr != nil:
		return nil, k.kekErr
	case k.kek == nil:
		return nil, structs.Preconditionf("this server has no key-encryption key; make one: " +
			"berth operator root keyring init, and set server { keyring { file = \"...\" } } on each server")
	}
	return k.kek, nil
}

// Follow keeps the ring as the rows have it, until ctx ends.
func (k *Keys) Follow(ctx context.Context) {
	k.Logger.Info("key-encryption key", "source", k.Settings.String(), "id", k.KEK())
	_, err := k.encrypter()
	if err != nil && k.Settings.String() != "none" {
		k.Logger.Error("failed to read the key-encryption key, retrying", "error", err)
	}
	k.follow(ctx, k.update)
}

// follow calls step at once, after each change of the root keys, and again after a time if it has failed.
func (k *Keys) follow(ctx context.Context, step func(context.Context) (done bool)) {
	feed := k.Store.Subscribe(1, state.RootKeyRows)
	defer feed.Close()
	for ctx.Err() == nil {
		feed.TakeChanges()
		var retry <-chan time.Time
		if !step(ctx) {
			retry = time.After(k.Retry)
		}
		select {
		case <-feed.Ready():
		case <-retry:
		case <-ctx.Done():
		}
	}
}

// update makes the ring as the rows are. It reports whether all keys are open.
func (k *Keys) update(ctx context.Context) bool {
	tx := k.Store.Read()
	rows := map[string]*structs.RootKey{}
	for row := range state.RootKeys(tx) {
		rows[row.KeyID] = row
	}
	for _, id := range k.Ring.IDs() {
		if rows[id] == nil {
			k.Ring.Remove(id)
		}
	}

	open := k.Ring.IDs()
	closed := map[string]string{}
	active := ""
	for id, row := range rows {
		if !slices.Contains(open, id) {
			err := k.open(ctx, row)
			if err != nil {
				closed[id] = err.Error()
				continue
			}
		}
		if row.State == structs.RootKeyActive {
			active = id
		}
	}
	if ctx.Err() != nil {
		return false
	}
	err := k.Ring.Use(active)
	if err != nil {
		k.Logger.Error("failed to use the active root key", "error", err)
	}
	k.setClosed(tx, closed)

	_, err = k.encrypter()
	if err == nil {
		k.Announce(k.KEK())
	}
	return len(closed) == 0 && (err == nil || k.Settings.String() == "none")
}

// open adds a root key to the ring.
func (k *Keys) open(ctx context.Context, row *structs.RootKey) error {
	kek, err := k.encrypter()
	if err != nil {
		return fmt.Errorf("it needs key-encryption key %s: %w", row.KEK, err)
	}
	return k.Settings.unwrap(ctx, kek, row, k.Ring)
}

// Unwrap returns a ring with the root keys of some rows, for a server whose store does not have them yet.
func (s *Settings) Unwrap(ctx context.Context, rows []*structs.RootKey) (*keyring.Ring, error) {
	kek, err := s.open()
	if err != nil {
		return nil, err
	}
	if kek == nil {
		return nil, structs.Preconditionf("this server has no key-encryption key")
	}
	ring := &keyring.Ring{}
	for _, row := range rows {
		err := s.unwrap(ctx, kek, row, ring)
		if err != nil {
			return nil, fmt.Errorf("root key %s: %w", row.KeyID, err)
		}
	}
	return ring, nil
}

// unwrap adds a root key to a ring.
func (s *Settings) unwrap(
	ctx context.Context, kek encrypter, row *structs.RootKey, ring *keyring.Ring,
) error {
	if kek.ID() != row.KEK {
		return fmt.Errorf("it needs key-encryption key %s, and this server has %s (%s)",
			row.KEK, kek.ID(), s.String())
	}
	key, err := kek.Unwrap(ctx, row.KeyID, row.Wrapped)
	if err != nil {
		return err
	}
	defer clear(key)
	if !bytes.Equal(Digest(row.KeyID, key), row.Digest) {
		return fmt.Errorf("key-encryption key %s unwraps it to another key than the one that was wrapped", row.KEK)
	}
	return ring.Add(row.KeyID, key)
}

// Digest returns the digest of a root key: see structs.RootKey.
func Digest(id string, key []byte) []byte {
	sum := sha256.Sum256(append([]byte("berth root key "+id+" "), key...))
	return sum[:]
}

// setClosed records the keys that are not open, and logs each cause once until it ends.
func (k *Keys) setClosed(tx state.Reader, closed map[string]string) {
	k.mu.Lock()
	k.closed = closed
	news := map[string]bool{}
	said := map[string]bool{}
	for id, reason := range closed {
		said[id+reason] = true
		news[id] = !k.said[id+reason]
	}
	k.said = said
	k.mu.Unlock()

	for _, id := range slices.Sorted(maps.Keys(closed)) {
		if news[id] {
			count, places := usesOf(tx, id)
			k.Logger.Error("a root key of the cluster cannot be opened: the secrets that it encrypts are lost to "+
				"this server until it has the key-encryption key again",
				"root_key", id,
				"reason", closed[id],
				"secrets", count,
				"places", places,
				"not_affected", "all else: nodes, jobs, allocations, volumes and claims without these secrets")
		}
	}
}

// mostPlaces is the number of places that a log message names.
const mostPlaces = 5

// usesOf counts the secrets that a key encrypts, and names some of their places.
func usesOf(tx state.Reader, id string) (count int, places string) {
	var some []string
	for v := range state.SealedValues(tx) {
		if v.Value.KeyID == id {
			count++
			if len(some) < mostPlaces {
				some = append(some, v.Place)
			}
		}
	}
	return count, strings.Join(some, ", ")
}

// Status fills the root keys that this server cannot open.
func (k *Keys) Status(resp *structs.KeyringStatus) {
	k.mu.Lock()
	defer k.mu.Unlock()
	resp.KEK = ""
	if k.kek != nil {
		resp.KEK = k.kek.ID()
	}
	resp.Closed = maps.Clone(k.closed)
}
