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
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
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
	Ask func(ctx context.Context, address string) (*cluster.KeyringStatus, error)
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
	kek    opened            // wraps and opens root keys
	former opened            // only opens them: see Settings.Previous
	closed map[string]string // why a root key is not open, by its ID
	said   map[string]bool   // the causes that the log has
	waits  string            // the error of the leader's work that the log has
	tried  chan struct{}     // closed and replaced after each attempt to open the root keys
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
		tried:  make(chan struct{}),
	}

	k.kek.source = &k.Settings.Source
	k.former.source = k.Settings.Previous
	for _, o := range []*opened{&k.kek, &k.former} {
		// A file that others can read is a fault of the machine, which waiting does not mend.
		_, err := o.read()
		if errors.Is(err, keyring.ErrOpenToOthers) {
			return nil, structs.Preconditionf("server.keyring: %w", err)
		}
	}

	return k, nil
}

// opened is a key-encryption key that is read from its source.
type opened struct {
	source *Source // nil: none
	key    encrypter
}

// read returns the key, or nil if there is none. It reads the source again until that has succeeded.
func (o *opened) read() (encrypter, error) {
	if o.key != nil || o.source == nil {
		return o.key, nil
	}
	key, err := o.source.open()
	o.key = key
	return key, err
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
	kek, err := k.kek.read()
	switch {
	case err != nil:
		return nil, err
	case kek == nil:
		return nil, structs.Preconditionf("this server has no key-encryption key; make one: " +
			"berth operator root keyring init, and set server { keyring { file = \"...\" } } on each server")
	}
	return kek, nil
}

// opener returns the key-encryption key with an ID, which may be the previous one. The error names both.
func (k *Keys) opener(id string) (encrypter, error) {
	kek, err := k.encrypter()
	if err == nil && kek.ID() == id {
		return kek, nil
	}

	k.mu.Lock()
	former, formerErr := k.former.read()
	k.mu.Unlock()
	if former != nil && former.ID() == id {
		return former, nil
	}

	// A key that cannot be read may be the wanted one, so its fault is the answer.
	err = errors.Join(err, formerErr)
	if err != nil {
		return nil, fmt.Errorf("it needs key-encryption key %s: %w", id, err)
	}

	has := fmt.Sprintf("%s (%s)", kek.ID(), k.Settings.Source.String())
	if former != nil {
		has += fmt.Sprintf(" and %s (%s)", former.ID(), k.Settings.Previous)
	}

	return nil, fmt.Errorf("it needs key-encryption key %s, and this server has %s", id, has)
}

// Follow keeps the ring as the rows have it, until ctx ends.
func (k *Keys) Follow(ctx context.Context) {
	// An operator compares the fingerprints of the servers by this line.
	k.Logger.Info("key-encryption key", "source", k.Settings.String(), "id", k.KEK())
	_, err := k.encrypter()
	if err != nil && k.Settings.IsSet() {
		k.Logger.Error("failed to read the key-encryption key, retrying", "error", err)
	}
	k.follow(ctx, k.update)
}

// follow calls step at once, after each change of the root keys, and again after a time if it has failed.
func (k *Keys) follow(ctx context.Context, step func(context.Context) (done bool)) {
	feed := k.Store.Subscribe(1, schema.RootKeyRows)
	defer feed.Close()
	for ctx.Err() == nil {
		// The changes are taken before the step reads the rows. A change after that makes the feed ready
		// again.
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
	rows := map[string]*cluster.RootKey{}
	for row := range trust.RootKeys(tx) {
		rows[row.KeyID] = row
	}

	for _, id := range k.Ring.IDs() {
		// A restore or a rotation has removed it. What it encrypted is gone or encrypted again.
		if rows[id] == nil {
			k.Ring.Remove(id)
		}
	}

	active, closed := k.openRows(ctx, rows)

	// The last errors come from calls that the end of the server has cut off.
	if ctx.Err() != nil {
		return false
	}

	// An active key that is closed is "" here: this server then rejects new secrets.
	err := k.Ring.Use(active)
	if err != nil {
		k.Logger.Error("failed to use the active root key", "error", err)
	}

	k.setClosed(tx, closed)

	_, err = k.encrypter()
	if err == nil {
		// The leader makes no root key before all servers have told the same fingerprint.
		k.Announce(k.KEK())
	}

	return len(closed) == 0 && (err == nil || !k.Settings.IsSet())
}

// openRows opens the root keys that are not open. It returns the ID of the active one, "" if that is closed,
// and the reasons of keys that stay closed.
func (k *Keys) openRows(
	ctx context.Context, rows map[string]*cluster.RootKey,
) (active string, closed map[string]string) {
	// A key that is open stays so without another call of the key management system.
	open := k.Ring.IDs()
	closed = map[string]string{}
	for id, row := range rows {
		if !slices.Contains(open, id) {
			err := k.open(ctx, row)
			if err != nil {
				closed[id] = err.Error()
				continue
			}
		}

		if row.State == cluster.RootKeyActive {
			active = id
		}
	}

	return active, closed
}

// openTimeout bounds the wait of a new leader for the active root key. A key management system may take more.
const openTimeout = 2 * time.Second

// AwaitActive waits until this server has opened the active root key, or has failed to. A new leader calls it
// before it takes secrets: its rows may be older than its ring by a moment, and it would reject them.
func (k *Keys) AwaitActive(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	for {
		active := trust.ActiveRootKey(k.Store.Read())
		k.mu.Lock()

		// The channel is taken under the lock: an attempt that ends between the look and the wait closes it.
		tried := k.tried
		done := active == nil || k.Ring.Active() == active.KeyID || k.closed[active.KeyID] != ""
		k.mu.Unlock()
		if done {
			return
		}

		select {
		case <-tried:
		case <-ctx.Done():
			return
		}
	}
}

// open adds a root key to the ring.
func (k *Keys) open(ctx context.Context, row *cluster.RootKey) error {
	kek, err := k.opener(row.KEK)
	if err != nil {
		return err
	}
	key, err := unwrap(ctx, kek, row)
	if err != nil {
		return err
	}

	// The ring has its own copy.
	defer clear(key)
	return k.Ring.Add(row.KeyID, key)
}

// Unwrap returns a ring with the root keys of some rows, for a server whose store does not have them yet.
func (s *Settings) Unwrap(ctx context.Context, rows []*cluster.RootKey) (*keyring.Ring, error) {
	k := &Keys{Deps: Deps{
		Settings: *s,
		Ring:     &keyring.Ring{},
	}}
	k.kek.source = &s.Source
	k.former.source = s.Previous
	for _, row := range rows {
		err := k.open(ctx, row)
		if err != nil {
			return nil, fmt.Errorf("root key %s: %w", row.KeyID, err)
		}
	}
	return k.Ring, nil
}

// unwrap returns a root key in plain form, which the caller clears.
func unwrap(ctx context.Context, kek encrypter, row *cluster.RootKey) ([]byte, error) {
	key, err := kek.Unwrap(ctx, row.KeyID, row.Wrapped)
	if err != nil {
		return nil, err
	}

	// A key management system may return something else, for example with another key of the same name.
	// Secrets that it encrypts would be lost.
	if !bytes.Equal(Digest(row.KeyID, key), row.Digest) {
		clear(key)
		return nil, fmt.Errorf("key-encryption key %s unwraps it to another key than the one that was wrapped",
			row.KEK)
	}
	return key, nil
}

// Digest returns the digest of a root key: see cluster.RootKey.
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
		// A cause that has ended is dropped here, so that it is logged again when it comes back.
		said[id+reason] = true
		news[id] = !k.said[id+reason]
	}

	k.said = said
	close(k.tried)
	k.tried = make(chan struct{})
	k.mu.Unlock()

	for _, id := range slices.Sorted(maps.Keys(closed)) {
		if news[id] {
			k.tellClosed(tx, id, closed[id])
		}
	}
}

// tellClosed logs a root key that is not open, and which secrets need it.
func (k *Keys) tellClosed(tx state.Reader, id, reason string) {
	count, places := usesOf(tx, id)
	values := []any{
		"root_key", id,
		"reason", reason,
		"secrets", count,
		"places", places,
	}
	authority := trust.ActiveAuthority(tx)
	if authority != nil && authority.Key.KeyID == id {
		k.Logger.Error("a root key of the cluster cannot be opened, and it encrypts the key of the certificate "+
			"authority: this server signs and renews no certificate, and if no server does, all certificates of "+
			"the machines end within a day; put the key-encryption key back, or the file of tls.ca_key_file "+
			"(docs/operations/keyring.md, a lost key)", values...)
		return
	}
	k.Logger.Error("a root key of the cluster cannot be opened: the secrets that it encrypts are lost to "+
		"this server until it has the key-encryption key again", append(values,
		"not_affected", "all else: nodes, jobs, allocations, volumes and claims without these secrets")...)
}

// mostPlaces is the number of places that a log message names.
const mostPlaces = 5

// usesOf counts the secrets that a key encrypts, and names some of their places.
func usesOf(tx state.Reader, id string) (count int, places string) {
	var some []string
	for v := range trust.SealedValues(tx) {
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
func (k *Keys) Status(resp *cluster.KeyringStatus) {
	k.mu.Lock()
	defer k.mu.Unlock()
	resp.KEK = ""
	if k.kek.key != nil {
		resp.KEK = k.kek.key.ID()
	}
	resp.Closed = maps.Clone(k.closed)
}
