package login

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/consul/lookup"
	"berth/structs"
	"berth/vault/vaulttest"
)

const asTask = "a1/server"

func newSource(t *testing.T) (*fixture, *VaultSource) {
	fx := newFixture(t, structs.Vault{})
	fx.mustUp(fx.hook(), false)
	return fx, NewVaultSource(fx.cfg.Vault, fx.cfg.Keeper)
}

func ask(t *testing.T, s *VaultSource, q lookup.Query, after uint64) (*lookup.VaultAnswer, uint64) {
	t.Helper()
	q.As = asTask
	a, err := s.Lookup(t.Context(), q, after, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := a.Value.(*lookup.VaultAnswer)
	return answer, a.Index
}

func TestVaultSource_ReadsASecretOnce(t *testing.T) {
	fx, s := newSource(t)
	fx.vault.Set(func(v *vaulttest.Server) { v.KV2["db"] = map[string]any{"password": "p"} })
	q := lookup.Query{Kind: lookup.VaultSecret, Name: "secret/db"}
	answer, index := ask(t, s, q, 0)
	if data := answer.Data["data"].(map[string]any); data["password"] != "p" || index != 1 {
		t.Errorf("got %v, %d", answer, index)
	}
	_, again := ask(t, s, q, index)
	if again != index || fx.vault.Count("secret/data/db") != 1 {
		t.Errorf("got the index %d after %d reads", again, fx.vault.Count("secret/data/db"))
	}
	next := s.held[lookup.Query{Kind: lookup.VaultSecret, Name: "secret/db", As: asTask}].next
	if in := time.Until(next); in < 4*time.Minute || in > reread {
		t.Errorf("it is read again in %v", in)
	}
}

// due makes the next call for a secret due.
func (s *VaultSource) due(q lookup.Query) {
	q.As = asTask
	s.held[q].next = time.Now()
}

func TestVaultSource_RenewsALease(t *testing.T) {
	fx, s := newSource(t)
	q := lookup.Query{Kind: lookup.VaultSecret, Name: "database/creds/app"}
	first, index := ask(t, s, q, 0)
	s.due(q)
	again, same := ask(t, s, q, index)
	if again != first || same != index || fx.vault.Count("sys/leases/renew") != 1 {
		t.Errorf("got %v, index %d, %d renewals", again, same, fx.vault.Count("sys/leases/renew"))
	}

	// A lease near its end is followed by another secret.
	fx.vault.Set(func(v *vaulttest.Server) { v.LeaseTTL = time.Minute })
	s.due(q)
	other, newer := ask(t, s, q, index)
	if other.LeaseID == first.LeaseID || newer != index+1 {
		t.Errorf("got %v, %d", other, newer)
	}
}

// TestVaultSource_ReadsAgainWithAnotherToken: the leases of a token end with it.
func TestVaultSource_ReadsAgainWithAnotherToken(t *testing.T) {
	fx, s := newSource(t)
	q := lookup.Query{Kind: lookup.VaultSecret, Name: "database/creds/app"}
	first, index := ask(t, s, q, 0)
	key := vaultKey("a1", "server")
	_, news, _ := fx.cfg.Keeper.Token(key)
	fx.vault.Revoke()
	fx.cfg.Keeper.Keep(fx.hook().subject, Token{Secret: fx.cfg.Keeper.secret(key), TTL: foundTTL, found: true})
	<-news
	for fx.vault.Live() == 0 {
		time.Sleep(time.Millisecond)
	}
	for end := time.Now().Add(time.Minute); ; {
		q := q
		q.As = asTask
		a, err := s.Lookup(t.Context(), q, index, 0)
		if err == nil && a.Value.(*lookup.VaultAnswer).LeaseID != first.LeaseID {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("got %v, %v", a, err)
		}
		time.Sleep(time.Millisecond)
	}
	if fx.vault.Leases() == 0 {
		t.Error("there is no live lease")
	}
}

func TestVaultSource_WritesAndLists(t *testing.T) {
	fx, s := newSource(t)
	fx.vault.Set(func(v *vaulttest.Server) {
		v.KV2["a"] = map[string]any{}
		r := v.Roles["web"]
		r.Paths = append(r.Paths, "pki/")
	})
	names, err := s.Lookup(t.Context(), lookup.Query{Kind: lookup.VaultNames, Name: "secret", As: asTask}, 0, 0)
	if err != nil || fmt.Sprint(names.Value) != "[a]" {
		t.Errorf("got %v, %v", names, err)
	}
	q := lookup.Query{Kind: lookup.VaultWrite, Name: "secret/issue", Values: `{"ttl":"1h"}`}
	answer, _ := ask(t, s, q, 0)
	if answer.Data["ttl"] != "1h" || answer.Data["written"] != "secret/issue" {
		t.Errorf("got %v", answer.Data)
	}
	q.As = asTask
	if !s.held[q].next.IsZero() {
		t.Error("it is written again")
	}
}

func TestVaultSource_NeedsTheTokenOfItsTask(t *testing.T) {
	fx, s := newSource(t)
	q := lookup.Query{Kind: lookup.VaultSecret, Name: "secret/db", As: "a1/other"}
	_, err := s.Lookup(t.Context(), q, 0, 0)
	if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), "no token of Vault yet") {
		t.Errorf("got %v", err)
	}
	q.As = asTask
	_, err = s.Lookup(t.Context(), q, 0, 0)
	if !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("got %v", err)
	}
	// Answers are forgotten with the token of their task.
	if err := fx.hook().Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	q.As = "a1/third"
	_, _ = s.Lookup(t.Context(), q, 0, 0)
	if len(s.held) != 1 {
		t.Errorf("got %d answers", len(s.held))
	}
}
