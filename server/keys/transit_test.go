package keys

import (
	"encoding/base64"
	"strings"
	"testing"

	"berth/server/keys/transit/transittest"
	"berth/state/trust"
	"berth/structs"
)

// TestTransit_IsTriedAgain starts a server while the engine is away, and then sealed.
func TestTransit_IsTriedAgain(t *testing.T) {
	engine := transittest.New(t)
	settings := Settings{Source: Source{Transit: engine.Settings()}}
	cl := newCluster(t)
	cl.withSecret(cl.server(settings))
	row := trust.ActiveRootKey(cl.Store.Read())
	if !strings.HasPrefix(string(row.Wrapped), "vault:v1:") || row.KEK != engine.Settings().ID() {
		t.Errorf("got the row %+v", row)
	}

	engine.Stop()
	s := cl.server(settings)
	for range 2 {
		if s.update(t.Context()) {
			t.Fatal("all keys count as open")
		}
	}
	engine.Start()
	engine.Set(func(e *transittest.Server) { e.Sealed = true })
	if s.update(t.Context()) {
		t.Fatal("all keys count as open")
	}
	for _, want := range []string{"nothing is listening there", "it is sealed"} {
		if got := strings.Count(s.log.String(), want); got != 1 {
			t.Errorf("the log has %q %d times: %s", want, got, s.log.String())
		}
	}

	engine.Set(func(e *transittest.Server) { e.Sealed = false })
	if !s.update(t.Context()) || s.Ring.Active() != row.KeyID {
		t.Errorf("the engine is back, and the key is not open: %s", s.log.String())
	}
	for _, plain := range engine.Plaintexts() {
		if strings.Contains(s.log.String(), plain) {
			t.Error("the log has a root key")
		}
	}
}

func TestTransit_ARotatedKeyOpensAllRootKeys(t *testing.T) {
	engine := transittest.New(t)
	settings := Settings{Source: Source{Transit: engine.Settings()}}
	cl := newCluster(t)
	s := cl.server(settings)
	cl.withSecret(s)
	engine.Set(func(e *transittest.Server) { e.Version = 2 })
	key, _, err := s.Rotate(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if got := trust.RootKey(cl.Store.Read(), key.KeyID).Wrapped; !strings.HasPrefix(string(got), "vault:v2:") {
		t.Errorf("the new root key is wrapped as %s", got)
	}
	other := cl.server(settings)
	if !other.update(t.Context()) || len(other.Ring.IDs()) != 2 {
		t.Error(other.log.String())
	}

	engine.Set(func(e *transittest.Server) { e.Sealed = true })
	if _, _, err := s.Rotate(t.Context(), false); structs.KindOf(err) != structs.KindUnavailable {
		t.Errorf("a rotation while it is sealed: got %v", err)
	}
}

// TestTransit_FollowsAFile moves a cluster from a file to a key management system.
func TestTransit_FollowsAFile(t *testing.T) {
	engine := transittest.New(t)
	was := file(t)
	cl := newCluster(t)
	cl.withSecret(cl.server(was))
	now := Settings{Source: Source{Transit: engine.Settings()}, Previous: &was.Source}
	if s := cl.server(now); !s.lead(t.Context()) {
		t.Fatal(s.log.String())
	}
	if !opensSecret(t, cl.Store, Settings{Source: now.Source}) {
		t.Error("the secret is closed")
	}
	key, err := base64.StdEncoding.DecodeString(engine.Plaintexts()[0])
	if err != nil || len(key) != 32 {
		t.Errorf("the engine has got %d bytes, error %v", len(key), err)
	}
}
