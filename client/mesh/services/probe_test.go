package services

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"berth/client/drivers/driver"
	"berth/structs"
)

func TestHTTP_SendsTheRequestOfTheCheck(t *testing.T) {
	got := ""
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.URL.String() + " " + string(body) + " " + r.UserAgent()
	}))
	defer server.Close()
	target := checkTarget{
		Address: server.Listener.Addr().String(),
		Check: &structs.ServiceCheck{
			Type:     structs.CheckHTTP,
			Protocol: "http",
			Method:   "POST",
			Path:     "/one?a=b",
			Body:     "body of one",
		},
	}
	checkResult(t, probeOnce(t, target, time.Minute), structs.CheckPassing, "200")
	if want := "POST /one?a=b body of one berth-check"; got != want {
		t.Errorf("the request is %q, want %q", got, want)
	}
	target.Check.Header = map[string][]string{"User-Agent": {"mine"}}
	probeOnce(t, target, time.Minute)
	if !strings.HasSuffix(got, " mine") {
		t.Errorf("the request is %q", got)
	}
}

// A redirect that makes a read of a write is the answer of the service: that of the read says nothing about
// it.
func TestHTTP_MakesNoReadOfAWrite(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/", http.StatusMovedPermanently)
		case "/kept":
			http.Redirect(w, r, "/", http.StatusPermanentRedirect)
		case "/endless":
			http.Redirect(w, r, "/endless", http.StatusFound)
		}
	}))
	defer server.Close()
	for _, c := range []struct{ method, path, status, output string }{
		{"GET", "/moved", structs.CheckPassing, "200"},
		{"POST", "/kept", structs.CheckPassing, "200"},
		{"POST", "/moved", structs.CheckFailing, "301"},
		{"GET", "/endless", structs.CheckFailing, "more than 10 redirects"},
	} {
		check := &structs.ServiceCheck{Type: structs.CheckHTTP, Protocol: "http", Method: c.method, Path: c.path}
		target := checkTarget{Address: server.Listener.Addr().String(), Check: check}
		checkResult(t, probeOnce(t, target, time.Minute), c.status, c.output)
	}
}

// A service cannot make the node keep much, or wait longer than for the beginning of an answer.
func TestHTTP_BoundsTheAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/header":
			w.Header().Set("X-Long", strings.Repeat("x", 2*maxHeader))
		case "/binary":
			_, _ = w.Write([]byte("\xff\xfe"))
		default:
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, maxCheckOutput))
			}
		}
	}))
	defer server.Close()
	at := func(path string) checkTarget {
		return checkTarget{
			Address: server.Listener.Addr().String(),
			Check:   &structs.ServiceCheck{Type: structs.CheckHTTP, Protocol: "http", Method: "GET", Path: path},
		}
	}
	checkResult(t, probeOnce(t, at("/header"), time.Minute), structs.CheckFailing, "header")
	got := probeOnce(t, at("/binary"), time.Minute)
	if got.status != structs.CheckPassing || !utf8.ValidString(got.output) {
		t.Errorf("got %s %q", got.status, got.output)
	}
	began := time.Now()
	checkResult(t, probeOnce(t, at("/endless"), time.Minute), structs.CheckPassing, "200")
	if time.Since(began) > 30*time.Second {
		t.Error("the check has read an answer without an end")
	}
}

func TestTLS_ExpectsTheNameOfTheCheck(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	c := &structs.ServiceCheck{TLSServerName: "web.example"}
	if got := tlsConfig(c); got.ServerName != "web.example" || got.InsecureSkipVerify {
		t.Errorf("the configuration expects %q", got.ServerName)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	creds := credentials.NewServerTLSFromCert(&server.TLS.Certificates[0])
	secured := grpc.NewServer(grpc.Creds(creds))
	healthpb.RegisterHealthServer(secured, grpchealth.NewServer())
	served := make(chan error, 1)
	go func() { served <- secured.Serve(l) }()
	defer func() { secured.Stop(); <-served }()
	target := checkTarget{
		Address: l.Addr().String(),
		Check:   &structs.ServiceCheck{Type: structs.CheckGRPC, GRPCUseTLS: true, TLSSkipVerify: true},
	}
	checkResult(t, probeOnce(t, target, time.Minute), structs.CheckPassing, "SERVING")
	target.Check.TLSSkipVerify = false
	checkResult(t, probeOnce(t, target, time.Minute), structs.CheckFailing, "certificate")
}

func TestScript_RunsTheCommandOfTheCheck(t *testing.T) {
	command := ""
	var fault error
	target := checkTarget{
		Check: &structs.ServiceCheck{Type: structs.CheckScript, Command: "/one", Args: []string{"-one"}},
		Exec: func(_ context.Context, x *driver.ExecConfig) (*driver.ExitResult, error) {
			command = strings.Join(x.Command, " ")
			_, _ = x.Stderr.Write([]byte("of stderr"))
			return &driver.ExitResult{}, fault
		},
	}
	checkResult(t, probeOnce(t, target, time.Minute), structs.CheckPassing, "of stderr")
	if command != "/one -one" {
		t.Errorf("the command is %q", command)
	}
	fault = errors.New("no shell")
	checkResult(t, probeOnce(t, target, time.Minute), structs.CheckFailing, "no shell")
	target.Exec = nil
	checkResult(t, probeOnce(t, target, time.Minute), structs.CheckFailing, "does not run")
}
