package api

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
)

func TestTransport_CallsARejectedCertificateAFaultOfTheConnect(t *testing.T) {
	a := pkitest.New(t, "global")
	files := a.Files(t, pki.RoleServer, "s1")
	keys, err := peertls.Open(peertls.Config{
		Mode:     peertls.ModeRequire,
		CAFile:   a.CAFile,
		CertFile: files.Cert,
		KeyFile:  files.Key,
	}, "global", pki.RoleServer, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	_ = srv.Listener.Close()
	srv.Listener = tls.NewListener(peertls.Listen(ln), keys.Server(peertls.Roles(pki.RoleNode)))
	srv.Start()
	defer srv.Close()

	tr := NodeTransport(func(ctx context.Context, address, _ string) (net.Conn, error) {
		d := peertls.Dialing{
			Connect: func(ctx context.Context) (net.Conn, error) { return connectPlain(ctx, address, "") },
			TLS:     keys.Client(peertls.Roles(pki.RoleServer)),
		}
		return d.Dial(ctx)
	}, "n1")
	resp, err := (&http.Client{Transport: tr}).Get("http://" + ln.Addr().String())
	if err == nil {
		_ = resp.Body.Close()
	}
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" || !strings.Contains(err.Error(), "rejected the certificate") {
		t.Errorf("got %v", err)
	}
}
