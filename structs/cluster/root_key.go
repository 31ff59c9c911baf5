package cluster

import "berth/structs"

// The states of a root key, as the dialect names them.
const (
	RootKeyActive   = "active"   // new values are encrypted with it; at most one
	RootKeyInactive = "inactive" // it decrypts values that were encrypted while it was active
	RootKeyRekeying = "rekeying" // the leader encrypts its values again with the active key
)

// RootKeyAlgorithm is the algorithm of all root keys, as the dialect names it.
const RootKeyAlgorithm = "aes256-gcm"

// RootKey is a key with which the servers encrypt secrets. Key: KeyID. The row has it only wrapped, that is
// encrypted with a key that is not in the data directories of the servers.
type RootKey struct {
	KeyID      string
	State      string // one of the RootKey constants
	Wrapped    []byte
	KEK        string // the ID of the key-encryption key that unwraps it
	Digest     []byte // SHA-256 of the key and its ID: an unwrapped key is checked against it
	CreateTime int64  // in ns since 1970
	structs.Indexes
}

// RootKeyAddRequest stores a new root key and makes it the active one.
type RootKeyAddRequest struct {
	KeyID   string
	Wrapped []byte
	KEK     string
	Digest  []byte
	// Was is the ID of the active key that it replaces, "" for none. The request fails if another one is
	// active.
	Was string
	// Full has the values of all other keys encrypted again with this one.
	Full bool
	Now  int64 // in ns since 1970
}

// RootKeyRekeyedRequest ends the state rekeying of a key that no value uses any more.
type RootKeyRekeyedRequest struct {
	KeyID string
}

// RootKeyRewrapRequest replaces the wrapped form of a root key by another key-encryption key's.
type RootKeyRewrapRequest struct {
	KeyID   string
	Was     string // the ID of the former key-encryption key
	KEK     string
	Wrapped []byte
}

// RootKeyRemoveRequest deletes a root key that is not active and that no value uses.
type RootKeyRemoveRequest struct {
	KeyID string
	structs.WriteOptions
}

// ResealRequest replaces sealed values by the same secrets under another root key. A value that has changed
// since it was read is left as it is.
type ResealRequest struct {
	Values []ResealedValue // at most MaxResealedValues
}

// MaxResealedValues bounds the values of a ResealRequest. The size of the entry is bounded by its proposer.
const MaxResealedValues = 256

// ResealedValue is a secret that was encrypted again.
type ResealedValue struct {
	Table string
	Key   []byte // of the row, as the table has it
	Place string // for which it is sealed: a row may have several
	Was   []byte // SHA-256 of the former Data
	Value structs.Sealed
}

// KeyringList reads the root keys. None of the answers of these methods has a key, also not in wrapped form.
var KeyringList = structs.Read[structs.QueryRequest, KeyringListResponse]("Keyring.List")

// KeyringListResponse has the root keys, in the order of their IDs.
type KeyringListResponse struct {
	Keys []*RootKeyMeta
	structs.QueryMeta
}

// RootKeyMeta describes a root key.
type RootKeyMeta struct {
	KeyID      string
	Algorithm  string
	State      string
	CreateTime int64  // in ns since 1970
	KEK        string // the fingerprint of the key-encryption key that unwraps it
	// Closed has the reasons of the servers that cannot open the key, by their names.
	Closed      map[string]string `json:",omitempty"`
	CreateIndex uint64
	ModifyIndex uint64
}

// Meta describes the key.
func (k *RootKey) Meta() *RootKeyMeta {
	return &RootKeyMeta{
		KeyID:       k.KeyID,
		Algorithm:   RootKeyAlgorithm,
		State:       k.State,
		CreateTime:  k.CreateTime,
		KEK:         k.KEK,
		CreateIndex: k.CreateIndex,
		ModifyIndex: k.ModifyIndex,
	}
}

// KeyringRotate makes a new root key and makes it the active one.
var KeyringRotate = structs.Write[KeyringRotateRequest, KeyringRotateResponse]("Keyring.Rotate")

// KeyringRotateRequest orders a new root key. With Full the leader encrypts all secrets again with it.
type KeyringRotateRequest struct {
	Full bool
	structs.WriteOptions
}

// KeyringRotateResponse has the new key.
type KeyringRotateResponse struct {
	Key *RootKeyMeta
	structs.WriteMeta
}

// KeyringDelete deletes a root key that no secret needs.
var KeyringDelete = structs.Write[RootKeyRemoveRequest, structs.Empty]("Keyring.Delete")

// KeyringStatusGet reads what one server can open. Each server answers it itself.
var KeyringStatusGet = structs.Read[structs.QueryRequest, KeyringStatus]("Keyring.Status")

// KeyringStatus has the root keys that a server cannot open.
type KeyringStatus struct {
	KEK    string            // the fingerprint of its key-encryption key, "" for none
	Closed map[string]string // the reason, by the ID of the key
	structs.QueryMeta
}
