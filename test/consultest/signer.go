package consultest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"berth/client/hooks"
	"berth/internal/idtoken"
	"berth/structs"
	"berth/structs/access"
)

// Signer signs the identities of allocations as the servers do, and serves their public keys over HTTP, for a
// Consul or a Vault that verifies logins.
type Signer struct {
	// URL is that of the public keys.
	URL string
	// Audience and Namespace are those of all identities.
	Audience  string
	Namespace string
	// Job is the ID of the job of all allocations.
	Job string

	signer *idtoken.Signer
}

// NewSigner makes a signer with a key of its own.
func NewSigner(t testing.TB, audience string) *Signer {
	t.Helper()
	public, private, err := idtoken.Generate(access.KeyRS256)
	if err != nil {
		t.Fatal(err)
	}

	// Its bytes tell the IDs of keys apart.
	id := fmt.Sprintf("%x", sha256.Sum256(public))[:16]
	s := &Signer{Audience: audience, Namespace: "default", Job: "web"}
	s.signer, err = idtoken.NewSigner(id, access.KeyRS256, private)
	if err != nil {
		t.Fatal(err)
	}

	keys, err := idtoken.KeySet([]access.PublicKey{{KeyID: id, Algorithm: access.KeyRS256, PublicKey: public}})
	if err != nil {
		t.Fatal(err)
	}

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(keys)
	}))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Of returns the identities of an allocation, signed at each look.
func (s *Signer) Of(allocID string) hooks.Identities { return ofAlloc{s, allocID} }

type ofAlloc struct {
	*Signer
	allocID string
}

// Token implements hooks.Identities.
func (o ofAlloc) Token(kind, workload, name string) (hooks.Token, bool) {
	text, err := o.Identity(access.WantedIdentity{
		AllocID:  o.allocID,
		Kind:     kind,
		Workload: workload,
		Name:     name,
	})
	return hooks.Token{JWT: text, Expires: time.Now().Add(time.Hour)}, err == nil
}

// Changed implements hooks.Identities. No token changes.
func (ofAlloc) Changed() <-chan struct{} { return nil }

// Identity signs an identity.
func (s *Signer) Identity(w access.WantedIdentity) (structs.Secret, error) {
	now := time.Now()
	claims := &idtoken.Claims{
		Claims: jwt.Claims{
			Subject:   "global:" + s.Namespace + ":" + s.Job + ":g:" + w.Workload + ":" + w.Name,
			Audience:  jwt.Audience{s.Audience},
			IssuedAt:  jwt.NewNumericDate(now),
			NotBefore: jwt.NewNumericDate(now),
			Expiry:    jwt.NewNumericDate(now.Add(time.Hour)),
		},
		Namespace: s.Namespace,
		JobID:     s.Job,
		AllocID:   w.AllocID,
	}

	if w.Kind == access.IdentityOfService {
		claims.Service = w.Workload
	} else {
		claims.Task = w.Workload
	}

	text, err := s.signer.Sign(claims)
	return structs.Secret(text), err
}
