package join

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/internal/keyring/keyringtest"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/server/authority"
	"berth/state"
	"berth/state/trust"
	"berth/structs/cluster"
	"berth/test/oneserver"
)

// alone is the only server of a cluster.
type alone struct {
	leading
	*oneserver.Log
}

// signingAlone returns a server whose cluster has an authority.
func signingAlone(t *testing.T, logger hclog.Logger) Signing {
	t.Helper()
	log := oneserver.NewLog()
	ring := &keyring.Ring{}
	keyringtest.Use(t, ring, "k")
	a := pkitest.New(t, "global")
	id := pki.AuthorityID(a.Cert)
	keyPEM, err := a.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := ring.Seal(cluster.AuthorityPlace(id), keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	log.Write(t, func(tx *state.WriteTx) error {
		err := trust.RootKeyAdd(tx, keyringtest.Row("k"))
		if err == nil {
			err = trust.AuthoritySet(tx, &cluster.AuthorityRequest{
				ID:      id,
				CertPEM: string(a.CertPEM()),
				Key:     sealed,
			})
		}
		return err
	})
	return Signing{
		Signer: authority.Signer{
			Rows:   authority.RowsOf(log.Store),
			Keys:   ring,
			Now:    time.Now,
			Agreed: authority.AgreedOf(log.Store, time.Now),
		},
		Store:  log.Store,
		Leader: alone{Log: log},
		Region: "global",
		Logger: logger,
	}
}

// An operator who finds a certificate of an unknown machine looks for the token with which it has joined.
func TestSign_TellsTheLogOfEachCertificateForAToken(t *testing.T) {
	var log bytes.Buffer
	s := signingAlone(t, hclog.New(&hclog.LoggerOptions{Output: &log}))
	hash := []byte("hash")
	_, err := fsm.Propose(t.Context(), s.Leader, fsm.JoinTokenPut, &cluster.JoinTokenRequest{
		ID:         "the-token",
		Hash:       hash,
		Role:       cluster.JoinNode,
		Uses:       1,
		ExpireTime: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := key.CSR(pki.Identity{Region: "global", Role: pki.RoleNode, ID: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	req := &cluster.CertificateSignRequest{TokenID: "the-token", TokenHash: hash, CSR: csr}
	req.Now = 1
	_, err = s.Sign(t.Context(), req, &cluster.CertificateSignResponse{})
	if err != nil {
		t.Fatal(err)
	}
	serial := trust.MachineCertificate(s.Store.Read(), cluster.JoinNode, "n1").Serial
	for _, want := range []string{"spiffe://global/node/n1", serial, "the-token"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q: %s", want, log.String())
		}
	}

	log.Reset()
	_, err = s.Sign(t.Context(), req, &cluster.CertificateSignResponse{})
	if err == nil || log.Len() > 0 {
		t.Errorf("a used token: %v, and the log says %s", err, log.String())
	}
}
