// Package keyring encrypts the secrets of the cluster with its root keys. It has the keys of one server in
// memory. server/keys opens them, and keeps them as the rows have them.
//
// The secrets of volumes are encrypted before they enter the log, and opened where a plugin is called or a
// node gets them. All copies of the secrets of one volume are bound to its name: those in its row, in its
// attachments, and in the payloads of commands. The state functions only copy them, so applying an entry
// needs no key.
package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"maps"
	"slices"
	"sync"

	"berth/structs"
)

// KeySize is the size of a root key in bytes: AES-256.
const KeySize = 32

// Ring has the root keys that this server can use. Its zero value has none. It is safe for concurrent use.
type Ring struct {
	mu     sync.RWMutex
	keys   map[string]cipher.AEAD // by the ID of the key
	active string                 // with which Seal encrypts, "" for none
}

// Add adds a root key, or does nothing if the ring has its ID. The error is invalid.
func (r *Ring) Add(id string, key []byte) error {
	if len(key) != KeySize {
		return structs.Invalidf("root key %s has %d bytes; expected %d", id, len(key), KeySize)
	}

	block, err := aes.NewCipher(key)
	if err != nil {
		return structs.Internalf("root key %s: %w", id, err)
	}

	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return structs.Internalf("root key %s: %w", id, err)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil {
		r.keys = map[string]cipher.AEAD{}
	}

	if r.keys[id] == nil {
		r.keys[id] = aead
	}

	return nil
}

// Use makes Seal encrypt with a key of the ring, or with none if id is "". The error is not-found.
func (r *Ring) Use(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id != "" && r.keys[id] == nil {
		return structs.NotFoundf("this server has not opened root key %s", id)
	}
	r.active = id
	return nil
}

// Remove forgets a key. Seal encrypts with none if it was the one in use.
func (r *Ring) Remove(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.keys, id)
	if r.active == id {
		r.active = ""
	}
}

// Active returns the ID of the key with which Seal encrypts, "" for none.
func (r *Ring) Active() string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.active
}

// IDs returns the IDs of all keys, in order.
func (r *Ring) IDs() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.keys))
}

// Seal encrypts a value for a place, e.g. "volume default/db". Only Open with the same place decrypts it,
// so a sealed value that is copied to another row is worth nothing. The error is precondition if there is
// no key.
func (r *Ring) Seal(place string, value []byte) (*structs.Sealed, error) {
	r.mu.RLock()
	id := r.active
	aead := r.keys[id]
	r.mu.RUnlock()
	if aead == nil {
		return nil, structs.Preconditionf("this server has no root key with which it can encrypt a secret; " +
			"see berth operator root keyring list")
	}

	return &structs.Sealed{
		KeyID: id,
		Data:  aead.Seal(nil, nil, value, []byte(place)),
	}, nil
}

// Open decrypts a value of Seal. The error is precondition if the ring lacks its key, and internal if the
// value is damaged or of another place.
func (r *Ring) Open(place string, s *structs.Sealed) ([]byte, error) {
	r.mu.RLock()
	aead := r.keys[s.KeyID]
	r.mu.RUnlock()
	if aead == nil {
		return nil, structs.Preconditionf("the secret of %s is encrypted with root key %s, which this server has "+
			"not opened; see berth operator root keyring list", place, s.KeyID)
	}

	value, err := aead.Open(nil, nil, s.Data, []byte(place))
	if err != nil {
		return nil, structs.Internalf("the secret of %s is damaged, or was encrypted for another place",
			place)
	}

	return value, nil
}
