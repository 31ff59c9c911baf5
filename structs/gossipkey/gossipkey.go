// Package gossipkey has the keys with which servers encrypt their gossip, as users write them, and the
// requests to change them. A key is secret: its holder may join the servers. No error of this package shows
// one.
package gossipkey

import (
	"crypto/rand"
	"encoding/base64"

	"berth/structs"
)

// Generate is the command that prints a new key, for the remedies of errors.
const Generate = "berth operator gossip keyring generate"

// MaxText is the most bytes of a key as text.
const MaxText = 64

// newBytes is the length of a new key, for AES-256.
const newBytes = 32

// New returns a new random key as text.
func New() string {
	key := make([]byte, newBytes)
	_, _ = rand.Read(key) // it never fails
	return base64.StdEncoding.EncodeToString(key)
}

// Parse decodes a key of 16, 24 or 32 bytes from base64. place names the key in the error, which is invalid.
func Parse(place, text string) ([]byte, error) {
	if len(text) > MaxText {
		return nil, structs.Invalidf("%s has %d bytes of text; expected at most %d: \"%s\" prints a valid key",
			place, len(text), MaxText, Generate)
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(key) != text { // the decoder skips line ends
		return nil, structs.Invalidf("%s is no base64; expected a key of 16, 24 or 32 bytes: \"%s\" prints one",
			place, Generate)
	}
	switch len(key) {
	case 16, 24, 32:
		return key, nil
	}
	return nil, structs.Invalidf("%s is a key of %d bytes; expected 16, 24 or 32: \"%s\" prints one",
		place, len(key), Generate)
}

// Operation is a request to the keyrings of all servers.
type Operation string

// The operations. All but List change the keyrings.
const (
	List    Operation = "list"
	Install Operation = "install" // add a key, with which servers then decrypt
	Use     Operation = "use"     // make an installed key the primary one, with which servers encrypt
	Remove  Operation = "remove"  // remove a key that is not the primary one
)

// Request is the body of an operation, in the shape of the dialect.
type Request struct {
	Key string // in base64
}

// Keyrings is the outcome of an operation at all servers. Its JSON has the keys as text, which only the
// operator socket may show.
type Keyrings struct {
	Messages    map[string]string // warnings and faults by the names of servers
	Keys        map[string]int    // how many servers have each key; of List
	PrimaryKeys map[string]int    // how many servers encrypt with each key; of List
	NumNodes    int               // servers that were asked
	NumErr      int               // servers that reported a fault
}
