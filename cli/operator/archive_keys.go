package operator

import (
	"context"
	"io"
	"math"
	"strconv"

	"berth/cli/command"
	"berth/fsm"
	"berth/state"
	"berth/state/trust"
)

// archivedKey is a root key in an archive.
type archivedKey struct {
	KeyID   string
	State   string
	KEK     string // the ID of the key-encryption key that opens it
	Secrets int    // that it encrypts; 0: a restore needs no key for it
}

// loader loads the state that is written to it.
type loader struct {
	in    *io.PipeWriter
	ended chan struct{}
	store *state.Store
	fault error
}

// newLoader returns a loader that close ends.
func newLoader() *loader {
	out, in := io.Pipe()
	l := &loader{
		in:    in,
		ended: make(chan struct{}),
	}

	go func() {
		defer close(l.ended)
		l.store, l.fault = fsm.LoadAside(out, math.MaxUint64)
		_, _ = io.Copy(io.Discard, out) // the rest of a state that does not load
	}()
	return l
}

func (l *loader) Write(p []byte) (int, error) { return l.in.Write(p) }

// close ends the reading. Only then there is a store or a fault.
func (l *loader) close() {
	_ = l.in.Close()
	<-l.ended
}

// LoadArchive verifies the archive that the first argument of a command names, and loads the state in it. An
// archive of age is opened with IdentityFlag. It needs as much memory as a server.
func LoadArchive(ctx context.Context, c *command.Call) (*state.Store, error) {
	l := newLoader()
	f, _, err := openArchive(ctx, c, l)
	l.close()
	if err != nil {
		return nil, err
	}
	command.CloseRead(f)
	return l.store, l.fault
}

// archivedKeys returns the root keys of a state, with the number of the secrets of each.
func archivedKeys(tx state.Reader) (all []archivedKey) {
	secrets := map[string]int{}
	for v := range trust.SealedValues(tx) {
		secrets[v.Value.KeyID]++
	}

	for k := range trust.RootKeys(tx) {
		all = append(all, archivedKey{
			KeyID:   k.KeyID,
			State:   k.State,
			KEK:     k.KEK,
			Secrets: secrets[k.KeyID],
		})
	}

	return all
}

// printKeys says which keys a restore of the archive needs.
func printKeys(c *command.Call, f *snapshotFile) {
	if f.KeysFault != "" {
		c.Printf("The keys that it needs are not known: its state does not load (\"berth operator check\")\n")
		return
	}

	if len(f.RootKeys) == 0 {
		c.Printf("It has no secrets, and needs no key\n")
		return
	}

	c.Printf("\nThe key-encryption keys that open its secrets:\n")
	var rows command.Grid
	for _, k := range f.RootKeys {
		rows.AddRow(k.KEK, k.KeyID, k.State, strconv.Itoa(k.Secrets))
	}

	c.Table("Key-encryption key|Root key|State|Secrets", rows)
}
