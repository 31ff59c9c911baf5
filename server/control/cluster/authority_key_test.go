package cluster

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/server/control/loop"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// The server has its ca_key_file still, and its ca_file has the new authority by now.
func TestRun_LeavesTheFilesOfAReplacedOne(t *testing.T) {
	former := pkitest.New(t, "global")
	next := pkitest.New(t, "global")
	id := func(a *pkitest.Authority) string { return pki.AuthorityID(a.Cert) }
	store := state.New()
	err := store.Write(1, func(tx *state.WriteTx) error {
		err := trust.RootKeyAdd(tx, &cluster.RootKeyAddRequest{
			KeyID:   "k",
			Wrapped: []byte("k"),
			KEK:     "kek",
			Digest:  []byte("k"),
			Now:     1,
		})
		for _, r := range []*cluster.AuthorityRequest{
			{ID: id(former), CertPEM: "former", Now: 1},
			{ID: id(next), CertPEM: "next", FormerID: id(former), CrossPEM: "cross", Now: 2},
		} {
			r.Key = &structs.Sealed{KeyID: "k", Data: []byte("key")}
			if err == nil {
				err = trust.AuthoritySet(tx, r)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := former.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	l := AuthorityKeyLoop{Common: loop.Common{Store: store, Logger: hclog.NewNullLogger()}}
	l.Files.Cert = next.CAFile
	l.Files.Key = filepath.Join(t.TempDir(), "ca-key.pem")
	pkitest.Write(t, l.Files.Key, keyPEM)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l.Run(ctx)
	if ctx.Err() != nil {
		t.Error("the leader tries to take the files in again and again")
	}
}
