package access_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/internal/idtoken"
	"berth/rpc"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

var (
	wanted      = endpointstest.Wanted
	signRequest = endpointstest.SignRequest
)

// tokenClaims verifies a token as another party does, with the published keys alone.
func tokenClaims(s *endpointstest.Server, token string) (c idtoken.Claims, algorithm string) {
	s.T.Helper()
	set, err := idtoken.KeySet(endpointstest.Must(s, access.SigningKeys, &structs.QueryRequest{}).PublicKeys)
	if err != nil {
		s.T.Fatal(err)
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA, jose.RS256})
	if err == nil {
		err = parsed.Claims(set, &c)
	}
	if err != nil {
		s.T.Fatal(err)
	}
	return c, parsed.Headers[0].Algorithm
}

// A token that a leader with a wrong clock has signed is good by the clocks of the others.
func TestSignIdentities_AreGoodByTheClusterTime(t *testing.T) {
	for name, c := range map[string]struct{ ahead, begins, ends time.Duration }{
		"the clock of the leader is ahead":  {30 * time.Hour, -30 * time.Hour, time.Minute},
		"the clock of the leader is behind": {-2 * time.Hour, 0, 2*time.Hour + time.Minute},
	} {
		s := endpointstest.New(t)
		s.AddSigningKeys()
		s.AddWorkload()
		endpointstest.MustPropose(s, fsm.ClusterTimeSet, &cluster.ClusterTimeRequest{
			Clock: cluster.ClusterTime{Time: s.Clock.Add(-c.ahead).UnixNano()},
		})
		got := endpointstest.Must(s, access.IdentitySign,
			signRequest(wanted(access.IdentityOfTask, "t", "vault"))).Signed[0]
		claims, _ := tokenClaims(s, string(got.JWT))
		begins := claims.NotBefore.Time().Sub(s.Clock)
		issued := claims.IssuedAt.Time().Sub(s.Clock)
		ends := claims.Expiry.Time().Sub(s.Clock)
		if begins != c.begins || issued != c.begins || ends != c.ends {
			t.Errorf("%s: the token is issued at %s of it, begins at %s and ends at %s", name, issued, begins, ends)
		}
	}
}

func TestSignIdentities_SignsWhatTheJobAsksFor(t *testing.T) {
	s := endpointstest.New(t)
	s.AddSigningKeys()
	s.AddWorkload()
	for _, c := range []struct {
		item           access.WantedIdentity
		algorithm, sub string
		audience       []string
		life           time.Duration
		task, service  string
	}{
		{wanted(access.IdentityOfTask, "t", "default"), access.KeyEdDSA, "global:default:job-a1:g:t:default",
			[]string{"nomadproject.io"}, 0, "t", ""},
		{wanted(access.IdentityOfTask, "t", "vault"), access.KeyRS256, "global:default:job-a1:g:t:vault",
			[]string{"vault.io", "other"}, time.Minute, "t", ""},
		{wanted(access.IdentityOfTask, "t", "long"), access.KeyRS256, "global:default:job-a1:g:t:long",
			[]string{"vault.io"}, access.MaxIdentityTTL, "t", ""},
		{wanted(access.IdentityOfService, "web", "consul-service_web"), access.KeyRS256,
			"global:default:job-a1:g:web:consul-service_web", []string{"consul.io"}, time.Hour, "", "web"},
	} {
		got := endpointstest.Must(s, access.IdentitySign, signRequest(c.item)).Signed[0]
		if got.Rejection != "" || got.WantedIdentity != c.item {
			t.Errorf("%+v: got %+v", c.item, got)
			continue
		}
		claims, algorithm := tokenClaims(s, string(got.JWT))
		if algorithm != c.algorithm || claims.Subject != c.sub || !slices.Equal(claims.Audience, c.audience) ||
			claims.Task != c.task || claims.Service != c.service {
			t.Errorf("%s: got %s %+v", c.sub, algorithm, claims)
		}
		if claims.Namespace != "default" || claims.JobID != "job-a1" || claims.AllocID != "a1" || claims.ID == "" {
			t.Errorf("%s: got %+v", c.sub, claims)
		}
		end := s.Clock.Add(c.life)
		ends := claims.Expiry != nil && claims.Expiry.Time().Equal(end) && got.Expiration == end.UnixNano()
		endless := claims.Expiry == nil && got.Expiration == 0
		if c.life > 0 && !ends || c.life == 0 && !endless ||
			!claims.NotBefore.Time().Equal(s.Clock) || !claims.IssuedAt.Time().Equal(s.Clock) {
			t.Errorf("%s: it ends at %v, want a life of %s", c.sub, claims.Expiry, c.life)
		}
	}
}

// Consul gives the rights of a service by the name in its identity. The node may say what a placeholder of
// the name stands for, and no more.
func TestSignIdentities_TheNameOfAServiceIsThatOfTheJob(t *testing.T) {
	for _, c := range []struct{ written, reported, want string }{
		{"web", "web", "web"},
		{"web", "payments", "web"},
		{"web", "web2", "web"},
		{"${meta.site}-web", "north-web", "north-web"},
		{"${meta.site}-web", "payments", "${meta.site}-web"},
		{"a-${meta.x}.b-${meta.y}", "a-1xb-2", "a-${meta.x}.b-${meta.y}"},
		{"a-${meta.x}-b-${meta.y}", "a-1-b-2", "a-1-b-2"},
	} {
		s := endpointstest.New(t)
		s.AddSigningKeys()
		s.AddNode("n1", "z")
		service := &structs.Service{
			Name:     c.written,
			Provider: structs.ServiceProviderConsul,
			Identity: &structs.WorkloadIdentity{Name: "consul", Audience: []string{"consul.io"}},
		}
		s.AddAlloc("a1", "n1", func(g *structs.TaskGroup) { g.Services = []*structs.Service{service} })
		endpointstest.Must(s, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
			NodeID:   "n1",
			SecretID: endpointstest.SecretOf("n1"),
			Allocs: []*structs.AllocClientUpdate{{
				ID:           "a1",
				ClientStatus: structs.AllocRunning,
				Services: []*structs.ServiceInstance{{
					ID:          service.InstanceID("a1", ""),
					ServiceName: c.reported,
				}},
			}},
		})
		signed := endpointstest.Must(s, access.IdentitySign,
			signRequest(wanted(access.IdentityOfService, c.written, "consul"))).Signed[0]
		claims, _ := tokenClaims(s, string(signed.JWT))
		if claims.Service != c.want {
			t.Errorf("%q, reported as %q: got an identity of %q, want %q", c.written, c.reported, claims.Service,
				c.want)
		}
	}
}

// An identity for Vault says which role its task asks for. Others do not, nor does a task without a role.
func TestSignIdentities_NamesTheRoleOfVault(t *testing.T) {
	s := endpointstest.New(t)
	s.AddSigningKeys()
	s.AddNode("n1", "z")
	s.AddAlloc("a1", "n1", func(g *structs.TaskGroup) {
		identities := []*structs.WorkloadIdentity{
			{Name: "vault_default", Audience: []string{"vault.io"}, TTL: time.Hour},
			{Name: "other", Audience: []string{"vault.io"}, TTL: time.Hour},
		}
		g.Tasks[0].Identities = identities
		g.Tasks[0].Vault = &structs.Vault{Role: "reader", Namespace: "team"}
		g.Tasks = append(g.Tasks, &structs.Task{Name: "plain", Driver: "exec", Identities: identities})
	})
	for item, want := range map[access.WantedIdentity][2]string{
		wanted(access.IdentityOfTask, "t", "vault_default"):     {"reader", "team"},
		wanted(access.IdentityOfTask, "t", "other"):             {},
		wanted(access.IdentityOfTask, "plain", "vault_default"): {},
	} {
		signed := endpointstest.Must(s, access.IdentitySign, signRequest(item)).Signed[0]
		c, _ := tokenClaims(s, string(signed.JWT))
		if c.VaultRole != want[0] || c.VaultNamespace != want[1] {
			t.Errorf("%+v: got the role %q in the namespace %q, want %q", item, c.VaultRole, c.VaultNamespace, want)
		}
	}
}

// An item without a token does not keep the others from theirs.
func TestSignIdentities_RejectsWhatTheNodeMayNotHave(t *testing.T) {
	s := endpointstest.New(t)
	s.AddSigningKeys()
	s.AddWorkload()
	s.AddAlloc("ended", "n1")
	s.EndAlloc("ended", "n1")
	s.AddAlloc("a2", "n2")
	edit := func(change func(*access.WantedIdentity)) access.WantedIdentity {
		w := wanted(access.IdentityOfTask, "t", structs.DefaultIdentity)
		change(&w)
		return w
	}
	items := []access.WantedIdentity{
		edit(func(w *access.WantedIdentity) { w.AllocID = "a2" }),
		edit(func(w *access.WantedIdentity) { w.AllocID = "unknown" }),
		edit(func(w *access.WantedIdentity) { w.AllocID = "ended" }),
		edit(func(w *access.WantedIdentity) { w.Workload = "other" }),
		edit(func(w *access.WantedIdentity) { w.Name = "other" }),
		edit(func(w *access.WantedIdentity) { w.Kind = "other" }),
		wanted(access.IdentityOfService, "web", structs.DefaultIdentity),
	}
	resp := endpointstest.Must(s, access.IdentitySign,
		signRequest(append(items, edit(func(*access.WantedIdentity) {}))...))
	for i, got := range resp.Signed {
		if signed := i == len(items); (got.JWT != "") != signed || (got.Rejection == "") != signed {
			t.Errorf("item %+v: a token of %d bytes, rejection %q", got.WantedIdentity, len(got.JWT), got.Rejection)
		}
	}
}

func TestSignIdentities_AsksTheLeader(t *testing.T) {
	s := endpointstest.New(t)
	s.AddWorkload()
	item := wanted(access.IdentityOfTask, "t", structs.DefaultIdentity)
	endpointstest.Rejected(s, structs.KindUnavailable, access.IdentitySign, signRequest(item)) // no key signs
	s.AddSigningKeys()
	stale := signRequest(item)
	stale.AllowStale = true
	endpointstest.Rejected(s, structs.KindInvalid, access.IdentitySign, stale)
	endpointstest.Rejected(s, structs.KindInvalid, access.IdentitySign,
		signRequest(make([]access.WantedIdentity, access.MaxSignedIdentities+1)...))
	wrong := signRequest(item)
	wrong.SecretID = "wrong"
	endpointstest.Rejected(s, structs.KindDenied, access.IdentitySign, wrong)
	wrong.SecretID = ""
	endpointstest.Rejected(s, structs.KindDenied, access.IdentitySign, wrong)
	s.Raft.Do(func() { s.Raft.Verify = structs.Unavailablef("no quorum") })
	endpointstest.Rejected(s, structs.KindUnavailable, access.IdentitySign, signRequest(item))
}

func TestSigningKeys_AreInTheLogOnlySealed(t *testing.T) {
	s := endpointstest.New(t)
	for i, der := range s.AddSigningKeys() {
		if strings.Contains(s.Raft.Text(), string(der[len(der)-32:])) {
			t.Errorf("the log has the private part of key %d", i)
		}
	}
	for k := range trust.SigningKeys(s.Store.Read()) {
		if k.Private == nil || len(k.Private.Data) == 0 {
			t.Errorf("the row of key %s has no private part", k.KeyID)
		}
	}
}

// An operator removes a key that has been replaced, and with it all that it signed.
func TestKeyringDelete_RemovesASigningKey(t *testing.T) {
	s := endpointstest.New(t)
	s.AddSigningKeys()
	remove := &cluster.RootKeyRemoveRequest{KeyID: access.KeyEdDSA}
	err := endpointstest.Rejected(s, structs.KindPrecondition, cluster.KeyringDelete, remove)
	if !strings.Contains(err.Error(), "rotate") {
		t.Errorf("got %v, want the remedy", err)
	}
	next := *trust.SigningKey(s.Store.Read(), access.KeyEdDSA)
	next.KeyID = "next"
	endpointstest.MustPropose(s, fsm.SigningKeyAdd, &access.KeyAddRequest{Key: &next})
	endpointstest.MustPropose(s, fsm.SigningKeyActivate, &access.KeyActivateRequest{KeyID: "next"})
	endpointstest.Must(s, cluster.KeyringDelete, remove)
	for _, k := range endpointstest.Must(s, access.SigningKeys, &structs.QueryRequest{}).PublicKeys {
		if k.KeyID == access.KeyEdDSA {
			t.Error("the key is still published")
		}
	}
	endpointstest.Rejected(s, structs.KindPrecondition, cluster.KeyringDelete,
		&cluster.RootKeyRemoveRequest{KeyID: "root"})
}

// A read that waits ends with the identity of its caller, and with its right.
func TestReads_EndWithTheIdentity(t *testing.T) {
	policy := func(rules string) *access.PolicyPutRequest {
		return &access.PolicyPutRequest{Policy: &access.Policy{
			Name: "p", Rules: rules, JobACL: &access.JobACL{JobID: "job-a1", Group: "g"},
		}}
	}
	for name, end := range map[string]func(s *endpointstest.Server){
		"the servers stop the allocation": func(s *endpointstest.Server) { s.LoseAlloc("a1") },
		"the allocation has ended":        func(s *endpointstest.Server) { s.EndAlloc("a1", "n1") },
		"the policy gives less": func(s *endpointstest.Server) {
			endpointstest.Must(s, access.PolicyPut,
				policy(`node { policy = "read" }`))
		},
		"the policy is deleted": func(s *endpointstest.Server) {
			endpointstest.Must(s, access.PolicyDelete, &access.PolicyDeleteRequest{Name: "p"})
		},
		"another policy denies": func(s *endpointstest.Server) {
			p := policy(`namespace "default" { policy = "deny" }`)
			p.Policy.Name = "q"
			endpointstest.Must(s, access.PolicyPut, p)
		},
		"the key is removed": func(s *endpointstest.Server) {
			endpointstest.MustPropose(s, fsm.SigningKeyRemove, &access.KeyRemoveRequest{KeyID: access.KeyEdDSA})
		},
	} {
		s := endpointstest.New(t)
		s.Guard()
		s.AddSigningKeys()
		s.AddWorkload()
		endpointstest.Must(s, access.PolicyPut, policy(`namespace "default" { policy = "read" }`))
		options := structs.QueryOptions{AuthToken: s.TaskIdentity()}
		options.MinIndex = endpointstest.Must(s, structs.DeploymentList,
			&structs.QueryRequest{QueryOptions: options}).Index
		options.MaxWait = 20 * time.Second
		ended := make(chan error, 1)
		go func() {
			req := &structs.QueryRequest{QueryOptions: options}
			_, err := rpc.Call(t.Context(), s.RPC, structs.DeploymentList, req)
			ended <- err
		}()
		end(s)
		err := <-ended
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: the read that waited ended with %v, want denied", name, err)
		}
	}
}
