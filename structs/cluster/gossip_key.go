package cluster

import (
	"crypto/rand"
	"encoding/base64"

	"berth/structs"
)

// GossipKeyCommand is the command that prints a new key, for the remedies of errors.
const GossipKeyCommand = "berth operator gossip keyring generate"

// MaxGossipKeyText is the most bytes of a key as text.
const MaxGossipKeyText = 64

// newGossipKeyBytes is the length of a new key, for AES-256.
const newGossipKeyBytes = 32

// NewGossipKey returns a new random key as text.
func NewGossipKey() string {
	key := make([]byte, newGossipKeyBytes)
	_, _ = rand.Read(key) // it never fails
	return base64.StdEncoding.EncodeToString(key)
}

// ParseGossipKey decodes a key of 16, 24 or 32 bytes from base64. place names the key in the error, which is
// invalid.
func ParseGossipKey(place, text string) ([]byte, error) {
	if len(text) > MaxGossipKeyText {
		return nil, structs.Invalidf("%s has %d bytes of text; expected at most %d: \"%s\" prints a valid key",
			place, len(text), MaxGossipKeyText, GossipKeyCommand)
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(key) != text { // the decoder skips line ends
		return nil, structs.Invalidf("%s is no base64; expected a key of 16, 24 or 32 bytes: \"%s\" prints one",
			place, GossipKeyCommand)
	}
	switch len(key) {
	case 16, 24, 32:
		return key, nil
	}
	return nil, structs.Invalidf("%s is a key of %d bytes; expected 16, 24 or 32: \"%s\" prints one",
		place, len(key), GossipKeyCommand)
}

// GossipKeyOperation is a request to the keyrings of all servers.
type GossipKeyOperation string

// The operations. All but GossipKeyList change the keyrings.
const (
	GossipKeyList    GossipKeyOperation = "list"
	GossipKeyInstall GossipKeyOperation = "install" // add a key, with which servers then decrypt
	// make an installed key the primary one, with which servers encrypt
	GossipKeyUse    GossipKeyOperation = "use"
	GossipKeyRemove GossipKeyOperation = "remove" // remove a key that is not the primary one
)

// GossipKeyRequest is the body of an operation, in the shape of the dialect.
type GossipKeyRequest struct {
	Key string // in base64
}

// GossipKeyrings is the outcome of an operation at all servers. Its JSON has the keys as text, which only the
// operator socket may show.
type GossipKeyrings struct {
	Messages    map[string]string // warnings and faults by the names of servers
	Keys        map[string]int    // how many servers have each key; of GossipKeyList
	PrimaryKeys map[string]int    // how many servers encrypt with each key; of GossipKeyList
	NumNodes    int               // servers that were asked
	NumErr      int               // servers that reported a fault
}
