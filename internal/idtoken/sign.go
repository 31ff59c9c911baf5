package idtoken

import (
	"crypto"
	"crypto/x509"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"berth/structs"
)

// Claims are what a token says, by the names of the dialect. Times are in seconds since 1970.
type Claims struct {
	jwt.Claims
	Namespace string `json:"nomad_namespace"`
	JobID     string `json:"nomad_job_id"`
	AllocID   string `json:"nomad_allocation_id"`
	Task      string `json:"nomad_task,omitempty"`    // of an identity of a task
	Service   string `json:"nomad_service,omitempty"` // of an identity of a service
	// Of an identity for Vault: the settings in the block vault of its task, by which a role of Vault may
	// decide.
	VaultRole      string `json:"vault_role,omitempty"`
	VaultNamespace string `json:"vault_namespace,omitempty"`
}

// Signer signs tokens with one key. It is safe for many goroutines.
type Signer struct{ signer jose.Signer }

// NewSigner returns the signer of a private key, PKCS 8 in DER.
func NewSigner(keyID, algorithm string, der []byte) (*Signer, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		// The error of the parser is left out: it may show a part of the key.
		return nil, structs.Internalf("the private part of signing key %s is not readable", keyID)
	}
	private, isSigner := key.(crypto.Signer)
	if !isSigner {
		return nil, structs.Internalf("signing key %s signs nothing", keyID)
	}
	err = fits(algorithm, private.Public())
	if err != nil {
		return nil, err
	}

	options := (&jose.SignerOptions{}).WithType("JWT")
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.SignatureAlgorithm(algorithm),
		Key:       jose.JSONWebKey{Key: private, KeyID: keyID},
	}, options)
	if err != nil {
		return nil, structs.Internalf("signing key %s: %w", keyID, err)
	}
	return &Signer{signer}, nil
}

// Sign returns the token of claims. The error is invalid if the token would be longer than MaxToken.
func (s *Signer) Sign(c *Claims) (string, error) {
	token, err := jwt.Signed(s.signer).Claims(c).Serialize()
	if err != nil {
		return "", structs.Internalf("signing an identity: %w", err)
	}
	if len(token) > MaxToken {
		return "", structs.Invalidf("the token has %d bytes; expected at most %d: shorten the names of the job, "+
			"its groups and tasks, or the audiences of the identity", len(token), MaxToken)
	}
	return token, nil
}
