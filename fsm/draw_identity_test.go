package fsm

import (
	"maps"

	"berth/state"
	"berth/structs"
	"berth/structs/identity"
)

// identityDraws draws entries about few signing keys, so that many of them meet.
var identityDraws = map[string]func(d dice, tx *state.ReadTx) ([]byte, error){
	"SigningKeyAdd": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return SigningKeyAdd.Encode(&identity.KeyAddRequest{
			Key: &identity.SigningKey{
				KeyID:     d.of("s1", "s2", "s3", ""),
				Algorithm: d.of(identity.EdDSA, identity.RS256),
				PublicKey: []byte{1},
				Private:   &structs.Sealed{KeyID: d.of("k1", "k2", "k3"), Data: []byte{2}},
			},
			Now: d.now().Now,
		})
	},
	"SigningKeyActivate": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return SigningKeyActivate.Encode(&identity.KeyActivateRequest{
			KeyID: d.of("s1", "s2", "s3"),
			Now:   d.now().Now,
		})
	},
	"SigningKeyRemove": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return SigningKeyRemove.Encode(&identity.KeyRemoveRequest{KeyID: d.of("s1", "s2", "s3")})
	},
}

func init() { maps.Copy(draws, identityDraws) }
