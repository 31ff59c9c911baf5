package operator

import (
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

// keyReader reads the root keys of a state that is written to it.
type keyReader struct {
	in    *io.PipeWriter
	ended chan struct{}
	keys  []archivedKey
	fault error
}

// newKeyReader returns a reader that close ends.
func newKeyReader() *keyReader {
	out, in := io.Pipe()
	r := &keyReader{
		in:    in,
		ended: make(chan struct{}),
	}

	go func() {
		defer close(r.ended)
		store, err := fsm.LoadAside(out, math.MaxUint64)
		_, _ = io.Copy(io.Discard, out) // the rest of a state that does not load
		if err != nil {
			r.fault = err
			return
		}
		r.keys = archivedKeys(store.Read())
	}()
	return r
}

func (r *keyReader) Write(p []byte) (int, error) { return r.in.Write(p) }

// close ends the reading. Only then the keys are known.
func (r *keyReader) close() {
	_ = r.in.Close()
	<-r.ended
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
