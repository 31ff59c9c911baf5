package transport

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/structs"
	"berth/test/kit"
)

func TestExplain_SaysWhyAnAgentRejectsTheClientCertificate(t *testing.T) {
	f, twin := newFixture(t, "eu"), newFixture(t, "eu")
	us := pkitest.New(t, "us")
	a := pkitest.Authority{Authority: f.authority, Dir: t.TempDir(), CAFile: f.ca}
	files := a.Files(t, pki.RoleServer, "s1")
	keys, err := peertls.Open(peertls.Config{
		Mode:     peertls.ModeRequire,
		CAFile:   f.ca,
		CertFile: files.Cert,
		KeyFile:  files.Key,
	}, "eu", pki.RoleServer, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	logged := &kit.Output{}
	logger := hclog.New(&hclog.LoggerOptions{Output: logged})
	callers := peertls.Roles(pki.RoleOperator, pki.RoleServer)
	srv := f.serve(false, func(c *tls.Config) {
		c.GetConfigForClient = peertls.WarnOfRejections(keys.Server(callers), logger).GetConfigForClient
	})

	settings := func(a *pkitest.Authority, role pki.Role) TLS {
		files := a.Files(t, role, "x")
		return TLS{CACert: f.ca, ClientCert: files.Cert, ClientKey: files.Key}
	}
	strange := twin.client(false)
	strange.CACert = f.ca
	for _, c := range []struct {
		name     string
		settings TLS
		want     string
	}{
		{"an ended certificate", f.client(true), "is not valid at this time"},
		{"a node", settings(&a, pki.RoleNode), "it is of the role node"},
		{"another authority", strange, "none of the authorities in " + f.ca + " has signed it"},
		{"another authority and region", settings(us, pki.RoleOperator), "none of the authorities"},
	} {
		_, err := get(t, srv.URL, c.settings)
		wantError(t, c.name, err, structs.KindDenied, c.want)
	}
	if n := strings.Count(logged.String(), "rejected the certificate"); n != 1 {
		t.Errorf("the log tells of %d rejections of this minute, want 1", n)
	}
	_, err = get(t, srv.URL, f.client(false))
	if err != nil {
		t.Errorf("an operator: %v", err)
	}
}

func TestExplain_NamesTheLogOfTheAgentForOtherReasons(t *testing.T) {
	f := newFixture(t, "eu")
	tr, err := Open("https://127.0.0.1:1", f.client(false))
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, "42", tr.rejected(alertBadCertificate), structs.KindDenied, "the log of the agent has the reason")
}
