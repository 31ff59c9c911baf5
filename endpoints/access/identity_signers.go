package access

import (
	"sync"

	"berth/internal/idtoken"
	"berth/internal/keyring"
	"berth/structs"
	"berth/structs/access"
)

// keptSigners bounds the opened keys. Few keys sign at once.
const keptSigners = 8

// signers keeps opened keys: to read a private key of RS256 costs as much as a signature. It is safe for many
// goroutines.
type signers struct {
	ring *keyring.Ring
	mu   sync.Mutex
	open map[string]*idtoken.Signer // by the ID of the key
}

// of returns the signer of a key. The error is unavailable if this server cannot open its private part: the
// next leader may have its root key.
func (s *signers) of(k *access.SigningKey) (*idtoken.Signer, error) {
	s.mu.Lock()
	known := s.open[k.KeyID]
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}

	der, err := s.ring.Open(access.SigningKeyPlace(k.KeyID), k.Private)
	if err != nil {
		return nil, structs.Unavailablef("%w", err)
	}
	defer clear(der)
	signer, err := idtoken.NewSigner(k.KeyID, k.Algorithm, der)
	if err != nil {
		return nil, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil || len(s.open) >= keptSigners {
		s.open = map[string]*idtoken.Signer{}
	}
	s.open[k.KeyID] = signer
	return signer, nil
}
