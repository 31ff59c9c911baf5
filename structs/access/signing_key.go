package access

import (
	"time"

	"berth/structs"
)

// The algorithms of signing keys, by their names in tokens. Tokens for the servers themselves use KeyEdDSA,
// with which signing is cheap. All others use the algorithm of the settings: KeyRS256, which most parties can
// verify, or KeyEdDSA.
const (
	KeyEdDSA = "EdDSA"
	KeyRS256 = "RS256"
)

// The states of a signing key.
const (
	// KeyPublished keys are among the public keys and sign nothing yet.
	KeyPublished = "published"
	// KeyActive keys sign. There is at most one of each algorithm.
	KeyActive = "active"
	// KeyRetired keys sign nothing. They are published until the last token that they signed has ended.
	KeyRetired = "retired"
)

// The times of a rotation.
const (
	// KeyCacheTime is how long the answer with the public keys may be kept.
	KeyCacheTime = 15 * time.Minute
	// KeyPublishTime is how long a key is published before it signs. It is longer than KeyCacheTime, because a
	// server that lags may answer without the key for a while.
	KeyPublishTime = 20 * time.Minute
	// KeyKeepTime is how long a key that has signed is published: until its last token has ended on a clock that
	// is a little behind.
	KeyKeepTime = MaxIdentityTTL + 10*time.Minute
)

// SigningKey is a key pair with which the servers sign identities. Key: KeyID. The private key is encrypted
// with a root key.
type SigningKey struct {
	KeyID     string
	Algorithm string // KeyEdDSA or KeyRS256
	PublicKey []byte // PKIX in DER
	// Private is the private key: PKCS 8 in DER.
	Private    *structs.Sealed `json:"-" codec:"Private"`
	State      string          // one of the Key constants
	CreateTime int64           // UnixNano
	ActiveTime int64           // UnixNano; from when it signs, 0 before
	RetireTime int64           // UnixNano; until when it signed, 0 before
	structs.Indexes
}

// SigningKeyPlace is the place for which the private part of a key is encrypted.
func SigningKeyPlace(keyID string) string { return "signing key " + keyID }

// The payloads of the log entries about signing keys.
type (
	// KeyAddRequest stores a new key. It signs at once if no key of its algorithm does, else it is published.
	KeyAddRequest struct {
		Key *SigningKey
		Now int64 // UnixNano
	}

	// KeyActivateRequest makes a published key sign, and retires the one that did.
	KeyActivateRequest struct {
		KeyID string
		Now   int64 // UnixNano
	}

	// KeyRemoveRequest deletes a key. An identity that it signed is worth nothing from then on.
	KeyRemoveRequest struct {
		KeyID string
	}
)

// SigningKeys reads the public keys, and how identities name their issuer. Any server answers.
var SigningKeys = structs.Read[structs.QueryRequest, KeysResponse]("Keyring.ListPublic")

// KeysResponse has the public keys of all signing keys, active ones first.
type KeysResponse struct {
	PublicKeys []PublicKey
	Issuer     string // the setting oidc_issuer of the server, "" for none
	structs.QueryMeta
}

// PublicKey is the public part of a signing key.
type PublicKey struct {
	KeyID      string
	Algorithm  string
	PublicKey  []byte // PKIX in DER
	CreateTime int64  // UnixNano
}

// Public returns the public part of a key.
func (k *SigningKey) Public() PublicKey {
	return PublicKey{
		KeyID:      k.KeyID,
		Algorithm:  k.Algorithm,
		PublicKey:  k.PublicKey,
		CreateTime: k.CreateTime,
	}
}
