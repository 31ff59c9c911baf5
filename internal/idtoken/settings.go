package idtoken

import (
	"net/url"
	"time"

	"berth/structs"
	"berth/structs/access"
)

// Settings are the block workload_identity of a server. All servers have the same.
type Settings struct {
	// Algorithm signs the identities that are for others: RS256 or EdDSA. Those for the servers use EdDSA.
	Algorithm   string        `hcl:"algorithm"`
	RotateAfter time.Duration `hcl:"rotate_after"` // the age of a signing key at which another one replaces it
}

// The bounds of RotateAfter. A key lives on for a day after it was replaced, so a short life makes many keys.
const (
	leastRotation   = time.Hour
	longestRotation = 10 * 365 * 24 * time.Hour
)

// DefaultSettings returns the settings of a server without the block.
func DefaultSettings() Settings {
	return Settings{
		Algorithm:   access.KeyRS256,
		RotateAfter: 30 * 24 * time.Hour,
	}
}

// Validate returns the first fault of the settings.
func (s *Settings) Validate() error {
	if s.Algorithm != access.KeyRS256 && s.Algorithm != access.KeyEdDSA {
		return structs.Invalidf("workload_identity.algorithm is %q; expected %s or %s",
			structs.Cut(s.Algorithm, structs.MaxQuoted), access.KeyRS256, access.KeyEdDSA)
	}
	if s.RotateAfter < leastRotation || s.RotateAfter > longestRotation {
		return structs.Invalidf("workload_identity.rotate_after is %s; expected %s to %s",
			s.RotateAfter, leastRotation, longestRotation)
	}
	return nil
}

// maxIssuer bounds the name of the issuer in bytes: each token has it.
const maxIssuer = 256

// CheckIssuer returns an error unless an issuer is none, or the URL below which others read the public keys.
func CheckIssuer(issuer string) error {
	if issuer == "" {
		return nil
	}
	u, err := url.Parse(issuer)
	plain := err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil &&
		u.RawQuery == "" && u.Fragment == ""
	if !plain || len(issuer) > maxIssuer {
		return structs.Invalidf("server.oidc_issuer is %q; expected an URL of at most %d bytes, such as "+
			"https://berth.example.com", structs.Cut(issuer, structs.MaxQuoted), maxIssuer)
	}
	return nil
}
