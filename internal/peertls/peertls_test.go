package peertls

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/pki"
	"berth/internal/pki/pkitest"
)

// configOf returns the configuration of an agent with a certificate.
func configOf(a *pkitest.Authority, files pkitest.Files) Config {
	return Config{
		Mode:     ModeRequire,
		CAFile:   a.CAFile,
		CertFile: files.Cert,
		KeyFile:  files.Key,
	}
}

func open(t testing.TB, a *pkitest.Authority, role pki.Role, id string) *Keys {
	t.Helper()
	keys, err := Open(configOf(a, a.Files(t, role, id)), a.Region(), role, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// echo serves connections with TLS that answer each byte by itself, until the test ends.
func echo(t *testing.T, config *tls.Config) (addr string) {
	t.Helper()
	return serve(t, func(conn net.Conn) {
		secured := tls.Server(NewConn(conn), config)
		_, _ = io.Copy(secured, secured)
		_ = secured.Close()
	})
}

// serve calls a function for each connection to an address, until the test ends.
func serve(t testing.TB, each func(net.Conn)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = ln.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { each(conn) })
		}
	})
	return ln.Addr().String()
}

// dialing returns a way to an address.
func dialing(addr string, client Client, plain bool) Dialing {
	return Dialing{
		Connect: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		},
		TLS:   client,
		Plain: plain,
	}
}

// dial connects, and ends the connection with the test.
func dial(t *testing.T, d Dialing) (net.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := d.Dial(ctx)
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

// mustEcho sends a byte over a connection and reads it back.
func mustEcho(t testing.TB, conn net.Conn) {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, err := conn.Write([]byte{7})
	got := make([]byte, 1)
	if err == nil {
		_, err = io.ReadFull(conn, got)
	}
	if err != nil || got[0] != 7 {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestKeys_ChangeWithoutADroppedConnection(t *testing.T) {
	a := pkitest.New(t, "global")
	server := open(t, a, pki.RoleServer, "s1")
	client := open(t, a, pki.RoleNode, "n1")
	addr := echo(t, server.Server(Roles(pki.RoleNode)))
	d := dialing(addr, client.Client(Roles(pki.RoleServer)), false)
	before, err := dial(t, d)
	if err != nil {
		t.Fatal(err)
	}
	mustEcho(t, before)

	a.Files(t, pki.RoleServer, "s1") // another key in the same files
	changed, err := server.Reload()
	if err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	changed, err = server.Reload()
	if err != nil || changed {
		t.Fatalf("the same files again: changed %v, %v", changed, err)
	}

	after, err := dial(t, d)
	if err != nil {
		t.Fatal(err)
	}
	mustEcho(t, after)
	mustEcho(t, before)
	first := before.(*tls.Conn).ConnectionState().PeerCertificates[0]
	second := after.(*tls.Conn).ConnectionState().PeerCertificates[0]
	if bytes.Equal(first.Raw, second.Raw) {
		t.Error("the new connection has the former certificate")
	}
}

func TestKeys_StayIfTheNewFilesAreNotValid(t *testing.T) {
	a := pkitest.New(t, "global")
	files := a.Files(t, pki.RoleServer, "s1")
	keys := open(t, a, pki.RoleServer, "s1")
	cert, err := os.ReadFile(files.Cert)
	if err != nil {
		t.Fatal(err)
	}
	other := a.Files(t, pki.RoleServer, "s2")
	otherCert, err := os.ReadFile(other.Cert)
	if err != nil {
		t.Fatal(err)
	}
	otherKey, err := os.ReadFile(other.Key)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cert, key []byte
		text      string
	}{
		"half of the file":      {cert[:len(cert)/2], nil, "cert_file"},
		"the key of another":    {nil, otherKey, "key_file"},
		"another identity":      {otherCert, otherKey, "restart the agent"},
		"an empty certificate":  {[]byte{}, nil, "cert_file"},
		"a file without bounds": {bytes.Repeat([]byte{' '}, MaxFile+1), nil, "larger than"},
	} {
		files := a.Files(t, pki.RoleServer, "s1")
		if c.cert != nil {
			pkitest.Write(t, files.Cert, c.cert)
		}
		if c.key != nil {
			pkitest.Write(t, files.Key, c.key)
		}
		former := keys.current.Load()
		changed, err := keys.Reload()
		if changed || err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: changed %v, %v", name, changed, err)
		}
		if keys.current.Load() != former {
			t.Errorf("%s: the keys are others", name)
		}
	}
}

func TestOpen_NamesTheFault(t *testing.T) {
	a := pkitest.New(t, "global")
	node := a.Files(t, pki.RoleNode, "n1")
	past := a.FilesOf(t, pki.Request{
		Identity: pki.Identity{Region: "global", Role: pki.RoleServer, ID: "old"},
		From:     time.Now().Add(-2 * time.Hour),
		Life:     time.Hour,
	})
	future := a.FilesOf(t, pki.Request{
		Identity: pki.Identity{Region: "global", Role: pki.RoleServer, ID: "new"},
		From:     time.Now().Add(3 * time.Hour),
		Life:     time.Hour,
	})
	other := pkitest.New(t, "global").Files(t, pki.RoleServer, "s1")
	missing := configOf(a, node)
	missing.CAFile += ".missing"
	damaged := configOf(a, node)
	damaged.CAFile += ".damaged"
	pkitest.Write(t, damaged.CAFile, append(a.CertPEM(), a.CertPEM()[:200]...))
	for name, c := range map[string]struct {
		config Config
		text   string
	}{
		"the role of a node":       {configOf(a, node), "needs one of a server"},
		"an expired certificate":   {configOf(a, past), "expired at"},
		"one that is not yet used": {configOf(a, future), "set the clocks"},
		"another authority":        {configOf(a, other), "unknown authority"},
		"no file":                  {missing, "ca_file"},
		"a damaged authority":      {damaged, "begins 2 certificates"},
	} {
		_, err := Open(c.config, "global", pki.RoleServer, hclog.NewNullLogger())
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	server := a.Files(t, pki.RoleServer, "s1")
	_, err := Open(configOf(a, server), "eu", pki.RoleServer, hclog.NewNullLogger())
	if err == nil || !strings.Contains(err.Error(), "another region") {
		t.Errorf("a certificate of another region: %v", err)
	}
}

func TestKeys_EndSoonInTheLastFifthOfTheirLife(t *testing.T) {
	keys := open(t, pkitest.New(t, "global"), pki.RoleServer, "s1")
	leaf := keys.current.Load().cert.Leaf
	fifth := LifeOf(leaf) / 5
	for before, want := range map[time.Duration]bool{
		fifth + time.Minute: false,
		fifth - time.Minute: true,
		-time.Minute:        true,
	} {
		now := leaf.NotAfter.Add(-before)
		if keys.endsSoon(now) != want {
			t.Errorf("%s before the end: %v", before, !want)
		}
	}
}

func TestDial_IsPlainOnlyWithAnEndThatSpeaksNoTLS(t *testing.T) {
	a := pkitest.New(t, "global")
	keys := open(t, a, pki.RoleServer, "s1")
	other := open(t, pkitest.New(t, "global"), pki.RoleServer, "s2")
	toServers := keys.Client(Roles(pki.RoleServer))
	secure := echo(t, keys.Server(Roles(pki.RoleServer)))
	stranger := echo(t, other.Server(Roles(pki.RoleServer)))
	closes := closing(t, nil)
	text := closing(t, []byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	for name, c := range map[string]struct {
		addr   string
		plain  bool
		config Client
		want   string // tls, plain or none
	}{
		"TLS":                                  {secure, true, toServers, "tls"},
		"an end that closes the connection":    {closes, true, toServers, "plain"},
		"an end that answers in text":          {text, true, toServers, "plain"},
		"one that closes, and TLS is required": {closes, false, toServers, "none"},
		"another authority":                    {stranger, true, toServers, "none"},
		"another role":                         {secure, true, keys.Client(Roles(pki.RoleNode)), "none"},
	} {
		conn, err := dial(t, dialing(c.addr, c.config, c.plain))
		got := "none"
		if err == nil {
			got = "plain"
			if _, secured := conn.(*tls.Conn); secured {
				got = "tls"
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, %v; expected %s", name, got, err, c.want)
		}
	}
}

// closing listens at an address, reads a little of each connection, answers and closes it.
func closing(t *testing.T, answer []byte) (addr string) {
	t.Helper()
	return serve(t, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1))
		_, _ = conn.Write(answer)
		_ = conn.Close()
	})
}
