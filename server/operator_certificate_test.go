package server

import (
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/rpc"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

const globalAnn = "spiffe://global/operator/ann"

// operatorRequest returns the request of a caller for the certificate of an identity, with a new key.
func operatorRequest(t *testing.T, id pki.Identity, caller string) *cluster.OperatorCertificateRequest {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := key.CSR(id)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster.OperatorCertificateRequest{CSR: csr, Operator: caller}
}

func ann() pki.Identity { return pki.Identity{Region: "global", Role: pki.RoleOperator, ID: "ann"} }

func TestOperatorCertificate_IsForRootAndForItsHolder(t *testing.T) {
	noLeaks(t)
	r, _ := joinable(t)
	of := func(region string, role pki.Role, id string) pki.Identity {
		return pki.Identity{Region: region, Role: role, ID: id}
	}
	for name, c := range map[string]struct {
		id     pki.Identity
		caller string
		kind   structs.Kind // "" if it is signed
	}{
		"root":              {ann(), cluster.OperatorRoot, ""},
		"its holder":        {ann(), globalAnn, ""},
		"another operator":  {ann(), "spiffe://global/operator/bob", structs.KindDenied},
		"a server":          {ann(), "spiffe://global/server/ann", structs.KindDenied},
		"nobody":            {ann(), "", structs.KindDenied},
		"of a server":       {of("global", pki.RoleServer, "s9"), cluster.OperatorRoot, structs.KindDenied},
		"of the caller":     {of("global", pki.RoleServer, "s9"), "spiffe://global/server/s9", structs.KindDenied},
		"of a node":         {of("global", pki.RoleNode, "n9"), cluster.OperatorRoot, structs.KindDenied},
		"of another region": {of("eu", pki.RoleOperator, "ann"), cluster.OperatorRoot, structs.KindDenied},
	} {
		_, err := rpc.Call(t.Context(), r, cluster.OperatorCertificate, operatorRequest(t, c.id, c.caller))
		if c.kind == "" && err != nil || c.kind != "" && !structs.IsKind(err, c.kind) {
			t.Errorf("%s: %v; expected %q", name, err, c.kind)
		}
	}
}

func TestOperatorCertificate_HasABoundedLife(t *testing.T) {
	noLeaks(t)
	r, _ := joinable(t)
	authorityPEM := trust.ActiveAuthority(r.store.Read()).CertPEM
	block, _ := pem.Decode([]byte(authorityPEM))
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for ttl, want := range map[time.Duration]time.Duration{
		0:                           cluster.OperatorLife,
		time.Hour:                   time.Hour,
		cluster.MaxOperatorLife:     cluster.MaxOperatorLife,
		cluster.MaxOperatorLife + 1: 0,
		-1:                          0,
	} {
		req := operatorRequest(t, ann(), cluster.OperatorRoot)
		req.TTL = ttl
		var answer *cluster.OperatorCertificateResponse
		var err error
		ask := func() (entries uint64) {
			before := r.consensus.LastIndex()
			answer, err = rpc.Call(t.Context(), r, cluster.OperatorCertificate, req)
			return r.consensus.LastIndex() - before
		}
		// The leader makes entries of its own, a few at its begin and one each 20 seconds.
		entries := ask()
		for tries := 1; entries > 0 && tries < 10; tries++ {
			entries = ask()
		}
		if want == 0 {
			if !structs.IsKind(err, structs.KindInvalid) {
				t.Errorf("%s: %v; expected invalid", ttl, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		checkOperator(t, answer, authority, want)
		if entries != 0 || answer.Index == 0 {
			t.Errorf("it made %d entries of the log, and its index is %d", entries, answer.Index)
		}
	}
}

// checkOperator checks an answer with the certificate of ann.
func checkOperator(
	t *testing.T, answer *cluster.OperatorCertificateResponse, authority *x509.Certificate, life time.Duration,
) {
	t.Helper()
	certs, err := pki.ParseCertificates([]byte(answer.Certificate))
	if err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(life)
	if end.After(authority.NotAfter) {
		end = authority.NotAfter
	}
	got := certs[0].NotAfter
	if got.After(end) || got.Before(end.Add(-time.Minute)) || answer.NotAfter != got.UnixNano() {
		t.Errorf("it ends on %s; expected %s", got, end)
	}
	id, err := pki.IdentityOf(certs[0])
	if err != nil || id != ann() || answer.Serial != pki.Serial(certs[0]) {
		t.Errorf("the certificate is of %s, with the number %s", id, answer.Serial)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(answer.Authorities))
	_, err = certs[0].Verify(x509.VerifyOptions{
		Roots:     roots,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		t.Error(err)
	}
}

// With prefer the roles do not decide, and whoever reaches the port may call without TLS.
func TestOperatorCertificate_IsForwardedByServersAlone(t *testing.T) {
	noLeaks(t)
	for _, require := range []bool{false, true} {
		r, server := joinable(t, func(c *Config) { c.RequireTLS = require })
		joined, key, err := r.join(r.token(nodeToken()), "n1")
		if err != nil {
			t.Fatal(err)
		}
		node := keysOf(t, joined, key, pki.RoleNode)
		ask := func(dial rpc.Dialer) error {
			pool := rpc.NewPool(dial, hclog.NewNullLogger(), nil)
			defer pool.Close()
			return pool.Call(t.Context(), r.RPCAddr(), cluster.OperatorCertificate.Name,
				operatorRequest(t, ann(), cluster.OperatorRoot), &cluster.OperatorCertificateResponse{})
		}
		as := func(keys *peertls.Keys) rpc.Dialer {
			return rpc.SecureDialer(rpc.Dial, keys.Client(peertls.Roles(pki.RoleServer)), false)
		}
		if !require {
			wantDenied(t, "without TLS", ask(rpc.Dial))
		}
		wantDenied(t, "a node", ask(as(node)))
		err = ask(as(server))
		if err != nil {
			t.Errorf("a server: %v", err)
		}
	}
}
