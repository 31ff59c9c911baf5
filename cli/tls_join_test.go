package cli

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"berth/cli/command"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
)

// joinLine is the command line of a join at a server, with a token that is valid.
func joinLine(t *testing.T, server string) []string {
	t.Helper()
	token := pki.NewJoinToken("eu", pki.RoleNode, pkitest.New(t, "eu").Cert)
	return []string{"tls", "join", "-dir", filepath.Join(t.TempDir(), "etc"), server, token.Text()}
}

// silentServer accepts connections and says nothing until it ends.
func silentServer(t *testing.T) (addr string, end func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		defer close(accepted)
		conn, err := listener.Accept()
		if err == nil {
			accepted <- conn
		}
	}()
	end = func() {
		_ = listener.Close()
		for conn := range accepted {
			_ = conn.Close()
		}
	}
	t.Cleanup(end)
	return listener.Addr().String(), end
}

// A server that does not answer holds the command up for a minute.
func TestJoin_SaysForWhichServerItWaits(t *testing.T) {
	t.Parallel()
	addr, end := silentServer(t)
	out := &untilText{text: "waits for the server " + addr, has: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-out.has:
		case <-t.Context().Done():
		}
		end()
	}()
	t.Cleanup(func() { <-ended })
	var errs bytes.Buffer
	code := Run(t.Context(), joinLine(t, addr), command.Stdio{In: strings.NewReader(""), Out: out, Err: &errs})
	const step = "; to see the servers, on one of them: berth server members\n"
	if code == 0 || !strings.Contains(out.String(), out.text) || !strings.HasSuffix(errs.String(), step) {
		t.Errorf("exit code %d, %s%s", code, out, errs.String())
	}
}

func TestJoin_SaysThatItIsInterrupted(t *testing.T) {
	t.Parallel()
	addr, _ := silentServer(t)
	ctx, interrupt := context.WithCancel(t.Context())
	out := &untilText{text: "waits for the server " + addr, has: make(chan struct{})}
	stop := context.AfterFunc(t.Context(), interrupt)
	defer stop()
	go func() {
		<-out.has
		interrupt()
	}()
	var errs bytes.Buffer
	code := Run(ctx, joinLine(t, addr), command.Stdio{In: strings.NewReader(""), Out: out, Err: &errs})
	const want = "Error: interrupted; the operation may continue; " +
		"to see the servers, on one of them: berth server members\n"
	if code == 0 || errs.String() != want {
		t.Errorf("exit code %d, %q; want %q", code, errs.String(), want)
	}
}
