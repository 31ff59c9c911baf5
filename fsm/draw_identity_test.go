package fsm

import (
	"maps"

	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

// identityDraws draws entries about few signing keys, so that many of them meet.
var identityDraws = map[string]func(d dice, tx *state.ReadTx) ([]byte, error){
	"SigningKeyAdd": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return SigningKeyAdd.Encode(&access.KeyAddRequest{
			Key: &access.SigningKey{
				KeyID:     d.of("s1", "s2", "s3", ""),
				Algorithm: d.of(access.KeyEdDSA, access.KeyRS256),
				PublicKey: []byte{1},
				Private:   &structs.Sealed{KeyID: d.of("k1", "k2", "k3"), Data: []byte{2}},
			},
			Now: d.now().Now,
		})
	},
	"SigningKeyActivate": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return SigningKeyActivate.Encode(&access.KeyActivateRequest{
			KeyID: d.of("s1", "s2", "s3"),
			Now:   d.now().Now,
		})
	},
	"SigningKeyRemove": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return SigningKeyRemove.Encode(&access.KeyRemoveRequest{KeyID: d.of("s1", "s2", "s3")})
	},
}

func init() { maps.Copy(draws, identityDraws) }
