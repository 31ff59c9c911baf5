package server

import (
	"os"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/internal/keyring"
	"berth/internal/pki"
	"berth/rpc"
	"berth/server/signing"
	"berth/state"
	"berth/state/trust"
	"berth/structs/cluster"
)

// The key-encryption key is lost, and with it the key of the authority in the rows: all certificates end
// within a day. The operator has the file of ca_key_file in its place.
func TestAuthorityKey_IsRestoredAfterALostKeyEncryptionKey(t *testing.T) {
	noLeaks(t)
	r, _ := joinable(t)
	cfg := r.cfg
	lost := trust.ActiveAuthority(r.store.Read())
	r.stop()
	err := os.WriteFile(cfg.Keyring.File, keyring.NewFileKey().Text(), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	r = start(t, s)
	r.until("there is another root key", func() bool {
		_, err = rpc.Call(t.Context(), r, cluster.KeyringRotate, &cluster.KeyringRotateRequest{})
		return err == nil
	})
	r.rows("the key of the authority is encrypted with it", func(tx *state.ReadTx) bool {
		return trust.ActiveAuthority(tx).Key.KeyID != lost.Key.KeyID
	})

	if now := trust.ActiveAuthority(r.store.Read()); now.ID != lost.ID || now.CertPEM != lost.CertPEM {
		t.Errorf("the authority is %s; expected %s", now.ID, lost.ID)
	}
	_, _, err = r.join(r.token(nodeToken()), "n1")
	if err != nil {
		t.Errorf("a node that joins: %v", err)
	}
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := key.CSR(pki.Identity{Region: "global", Role: pki.RoleServer, ID: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = r.Signing.Sign(t.Context(), csr, signing.Former{})
	if err != nil {
		t.Errorf("the renewal of the server: %v", err)
	}
}
