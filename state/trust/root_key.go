package trust

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
)

// RootKeys yields the root keys, in the order of their IDs.
func RootKeys(tx mvcc.Reader) iter.Seq[*cluster.RootKey] { return schema.RootKeys.Scan(tx) }

// RootKey returns a root key, or nil.
func RootKey(tx mvcc.Reader, id string) *cluster.RootKey { return schema.RootKeys.Get(tx, id) }

// ActiveRootKey returns the key with which new values are encrypted, or nil.
func ActiveRootKey(tx mvcc.Reader) *cluster.RootKey {
	for k := range RootKeys(tx) {
		if k.State == cluster.RootKeyActive {
			return k
		}
	}
	return nil
}

// The bounds of a root key. A wrapping program of an operator may add its own envelope to the key.
const (
	MaxRootKeys    = 64
	MaxRootKeyID   = 64
	MaxRootWrapped = 8 << 10
)

// RootKeyAdd stores a new key and makes it the active one. A repeat of the same request changes nothing.
func RootKeyAdd(tx *mvcc.WriteTx, p *cluster.RootKeyAddRequest) error {
	if err := checkRootKey(p); err != nil {
		return err
	}
	if known := RootKey(tx, p.KeyID); known != nil {
		if slices.Equal(known.Digest, p.Digest) {
			return nil
		}
		return structs.Conflictf("there is another root key %s", p.KeyID)
	}
	was := ActiveRootKey(tx)
	active := ""
	if was != nil {
		active = was.KeyID
	}
	if active != p.Was {
		return structs.Conflictf("the active root key is %q, not %q: another one was made at the same time",
			active, p.Was)
	}
	others := slices.Collect(RootKeys(tx))
	if len(others) >= MaxRootKeys {
		return structs.Preconditionf("there are %d root keys, the most; remove some that no value uses: "+
			"berth operator root keyring remove KEY", len(others))
	}

	for _, k := range others {
		if p.Full {
			setRootKeyState(tx, k, cluster.RootKeyRekeying)
		} else if k.State == cluster.RootKeyActive {
			setRootKeyState(tx, k, cluster.RootKeyInactive)
		}
	}
	schema.RootKeys.Put(tx, &cluster.RootKey{
		KeyID:      p.KeyID,
		State:      cluster.RootKeyActive,
		Wrapped:    p.Wrapped,
		KEK:        p.KEK,
		Digest:     p.Digest,
		CreateTime: p.Now,
	})
	return nil
}

func checkRootKey(p *cluster.RootKeyAddRequest) error {
	if p.KeyID == "" || len(p.KeyID) > MaxRootKeyID {
		return structs.Invalidf("KeyID has %d bytes; expected 1 to %d", len(p.KeyID), MaxRootKeyID)
	}
	return checkWrapped(p.Wrapped, p.KEK)
}

func checkWrapped(wrapped []byte, kek string) error {
	switch {
	case len(wrapped) == 0 || len(wrapped) > MaxRootWrapped:
		return structs.Invalidf("Wrapped has %d bytes; expected 1 to %d", len(wrapped), MaxRootWrapped)
	case kek == "" || len(kek) > MaxRootKeyID:
		return structs.Invalidf("KEK has %d bytes; expected 1 to %d", len(kek), MaxRootKeyID)
	}
	return nil
}

// RootKeyRewrap replaces the wrapped form of a key. It changes nothing if another key-encryption key than the
// expected one wraps it by now, or if the key is gone.
func RootKeyRewrap(tx *mvcc.WriteTx, p *cluster.RootKeyRewrapRequest) error {
	if err := checkWrapped(p.Wrapped, p.KEK); err != nil {
		return err
	}
	k := RootKey(tx, p.KeyID)
	if k == nil || k.KEK != p.Was {
		return nil
	}
	changed := new(*k)
	changed.Wrapped = p.Wrapped
	changed.KEK = p.KEK
	schema.RootKeys.Put(tx, changed)
	return nil
}

func setRootKeyState(tx *mvcc.WriteTx, k *cluster.RootKey, state string) {
	if k.State != state {
		changed := new(*k)
		changed.State = state
		schema.RootKeys.Put(tx, changed)
	}
}

// RootKeyRekeyed makes a key inactive whose values are all encrypted with another key. It changes nothing if
// the key is not rekeying.
func RootKeyRekeyed(tx *mvcc.WriteTx, p *cluster.RootKeyRekeyedRequest) error {
	k := RootKey(tx, p.KeyID)
	if k == nil || k.State != cluster.RootKeyRekeying {
		return nil
	}
	if err := checkUnused(tx, k); err != nil {
		return err
	}
	setRootKeyState(tx, k, cluster.RootKeyInactive)
	return nil
}

// RootKeyRemove deletes a key. The error is precondition if the key is active or a value uses it. A missing
// key counts as deleted.
func RootKeyRemove(tx *mvcc.WriteTx, p *cluster.RootKeyRemoveRequest) error {
	k := RootKey(tx, p.KeyID)
	if k == nil {
		return nil
	}
	if k.State == cluster.RootKeyActive {
		return structs.Preconditionf("root key %s is active; make another one first: "+
			"berth operator root keyring rotate", k.KeyID)
	}
	return DeleteUnusedRootKey(tx, k)
}

// DeleteUnusedRootKey deletes a key, also an active one. The error is precondition if a value uses it.
func DeleteUnusedRootKey(tx *mvcc.WriteTx, k *cluster.RootKey) error {
	if err := checkUnused(tx, k); err != nil {
		return err
	}
	schema.RootKeys.Delete(tx, k)
	return nil
}

// mostPlaces is the number of places that checkUnused names.
const mostPlaces = 5

// checkUnused returns an error, of kind precondition, if a value is encrypted with a key.
func checkUnused(tx mvcc.Reader, k *cluster.RootKey) error {
	uses := 0
	var places []string
	for v := range SealedValues(tx) {
		if v.Value.KeyID == k.KeyID {
			uses++
			if len(places) < mostPlaces {
				places = append(places, v.Place)
			}
		}
	}
	if uses == 0 {
		return nil
	}
	if uses > len(places) {
		places = append(places, fmt.Sprintf("and %d more", uses-len(places)))
	}
	return structs.Preconditionf("root key %s encrypts the secrets of %d places: %s. "+
		"Encrypt them with another key first: berth operator root keyring rotate -full",
		k.KeyID, uses, strings.Join(places, ", "))
}

// CheckRootKeys checks the states of the keys, and that at most one is active.
func CheckRootKeys(c *schema.Report) {
	active := 0
	states := []string{cluster.RootKeyActive, cluster.RootKeyInactive, cluster.RootKeyRekeying}
	for k := range RootKeys(c) {
		c.Want(slices.Contains(states, k.State), "root key %s: state %q", k.KeyID, k.State)
		c.Want(len(k.Wrapped) > 0 && k.KEK != "", "root key %s: it has no wrapped form", k.KeyID)
		if k.State == cluster.RootKeyActive {
			active++
		}
	}
	c.Want(active <= 1, "%d root keys are active", active)
}
