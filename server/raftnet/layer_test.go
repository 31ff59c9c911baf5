package raftnet

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/rpc"
)

// secured opens a connection of a role to a port that takes every role. It returns both ends.
func secured(t *testing.T, a *pkitest.Authority, role pki.Role) (served, dialed *tls.Conn) {
	t.Helper()
	everybody := peertls.Roles(pki.RoleServer, pki.RoleNode, pki.RoleOperator)
	files := a.Files(t, pki.RoleServer, "s1")
	keys, err := peertls.Open(peertls.Config{
		Mode:     peertls.ModeRequire,
		CAFile:   a.CAFile,
		CertFile: files.Cert,
		KeyFile:  files.Key,
	}, a.Region(), pki.RoleServer, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	files = a.Files(t, role, "x")
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	raw, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	own := peertls.NewConn(raw)
	config := keys.Client(everybody)(own)
	config.GetClientCertificate = nil
	config.Certificates = []tls.Certificate{pair}
	dialed = tls.Client(own, config)
	ended := make(chan error, 1)
	go func() { ended <- dialed.Handshake() }()
	conn, err := ln.Accept()
	if err == nil {
		served = tls.Server(peertls.NewConn(conn), keys.Server(everybody))
		err = served.Handshake()
	}
	err = errors.Join(err, <-ended)
	if err != nil {
		t.Fatalf("%s: %v", role, err)
	}
	t.Cleanup(func() {
		_ = dialed.Close()
		_ = served.Close()
	})
	return served, dialed
}

// The port takes nodes, too, so the role decides here again. An operator that the port would take is no
// server.
func TestLayer_TakesServersAlone(t *testing.T) {
	a := pkitest.New(t, "global")
	for role, taken := range map[pki.Role]bool{
		pki.RoleServer:   true,
		pki.RoleNode:     false,
		pki.RoleOperator: false,
	} {
		layer := NewLayer(&net.TCPAddr{}, rpc.Dial, hclog.NewNullLogger())
		served, dialed := secured(t, a, role)
		handed := make(chan struct{})
		go func() {
			defer close(handed)
			layer.Handoff(served)
		}()
		if taken {
			conn, err := layer.Accept()
			if err != nil || conn != net.Conn(served) {
				t.Errorf("%s: Raft has %v, %v", role, conn, err)
			}
		} else {
			_ = dialed.SetReadDeadline(time.Now().Add(time.Minute))
			_, err := dialed.Read(make([]byte, 1))
			if !errors.Is(err, io.EOF) {
				t.Errorf("%s: the connection is open: %v", role, err)
			}
		}
		_ = layer.Close()
		<-handed
	}
}
