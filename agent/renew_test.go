package agent

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/rpc"
	"berth/structs"
	"berth/structs/cluster"
)

// forger answers a node in the place of its servers, without TLS. It names an authority of its own.
type forger struct {
	*pkitest.Authority
	t        *testing.T
	addr     string
	lists    atomic.Int32 // calls for the list of authorities
	renewals atomic.Int32
}

func newForger(t *testing.T) *forger {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forger{
		Authority: pkitest.New(t, "global"),
		t:         t,
		addr:      ln.Addr().String(),
	}
	logger := hclog.NewNullLogger()
	srv := rpc.NewServer(logger,
		rpc.Handle(cluster.CertificateRevocations, f.list),
		rpc.Handle(cluster.CertificateRenew, f.renew))
	port := rpc.NewListener(ln, logger, map[byte]func(net.Conn){rpc.ByteMux: srv.ServeMux})
	ctx, end := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { port.Run(ctx) })
	t.Cleanup(func() {
		end()
		srv.Close()
		run.Wait()
	})
	return f
}

func (f *forger) list(
	ctx context.Context, r *structs.QueryRequest,
) (*cluster.CertificateRevocationsResponse, error) {
	f.lists.Add(1)
	if r.MinIndex > 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	resp := &cluster.CertificateRevocationsResponse{Authorities: []string{pki.AuthorityID(f.Cert)}}
	resp.Index = 1
	return resp, nil
}

func (f *forger) renew(
	_ context.Context, r *cluster.CertificateRenewRequest,
) (*cluster.CertificateSignResponse, error) {
	f.renewals.Add(1)
	csr, err := pki.ParseCSR(r.CSR)
	if err != nil {
		return nil, err
	}
	cert, err := f.Sign(csr.Public, pki.Request{Identity: csr.Identity, From: time.Now(), Life: day})
	return &cluster.CertificateSignResponse{
		Certificate: string(cert),
		Authorities: string(f.CertPEM()),
	}, err
}

// The answer of a renewal decides which servers the node trusts, after it requires TLS, too.
func TestRenew_ANodeThatPrefersTLSRenewsWithItAlone(t *testing.T) {
	own := pkitest.New(t, "global")
	f := newForger(t)
	files := own.Files(t, pki.RoleNode, "n1")
	before, err := os.ReadFile(files.Cert)
	if err != nil {
		t.Fatal(err)
	}
	node, _, _ := runServer(t, "n1", func(c *Config) {
		asNode(t, c, f.addr)
		c.TLS = peertls.Config{
			Mode:     peertls.ModePrefer,
			CAFile:   own.CAFile,
			CertFile: files.Cert,
			KeyFile:  files.Key,
			Renew:    true,
		}
	})
	awaitCondition(t, "the node fails to renew for the forged list", func() bool {
		return f.lists.Load() > 0 && node.keys.RenewalFault() != nil
	})
	if n := f.renewals.Load(); n != 0 {
		t.Errorf("%d renewals without TLS", n)
	}
	for path, want := range map[string][]byte{own.CAFile: own.CertPEM(), files.Cert: before} {
		got, err := os.ReadFile(path)
		if err != nil || string(got) != string(want) {
			t.Errorf("%s has changed: %v", path, err)
		}
	}
}

// A server that prefers TLS forwards to a leader without it, but no request whose answer has authorities.
func TestForward_AServerThatPrefersTLSForwardsRenewalsWithItAlone(t *testing.T) {
	own := pkitest.New(t, "global")
	f := newForger(t)
	files := own.Files(t, pki.RoleServer, "s1")
	a, _, _ := runServer(t, "s1", func(c *Config) {
		c.TLS = peertls.Config{
			Mode:     peertls.ModePrefer,
			CAFile:   own.CAFile,
			CertFile: files.Cert,
			KeyFile:  files.Key,
		}
	})
	list := new(cluster.CertificateRevocationsResponse)
	plain := cluster.CertificateRevocations.Name
	err := a.server.Forward(t.Context(), f.addr, plain, &structs.QueryRequest{}, list)
	if err != nil || f.lists.Load() != 1 {
		t.Fatalf("the list: %v", err)
	}
	for _, method := range []string{
		cluster.CertificateSign.Name, cluster.CertificateRenew.Name, cluster.OperatorCertificate.Name,
		cluster.JoinTokenCreate.Name, cluster.AuthorityList.Name,
	} {
		err = a.server.Forward(t.Context(), f.addr, method, &cluster.CertificateRenewRequest{},
			new(cluster.CertificateSignResponse))
		if !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("%s: %v; expected unavailable", method, err)
		}
	}
	if n := f.renewals.Load(); n != 0 {
		t.Errorf("%d renewals were forwarded without TLS", n)
	}
}
