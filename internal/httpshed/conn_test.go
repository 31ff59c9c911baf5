package httpshed

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/internal/loadshed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// door is a gate that is told what to do.
type door struct {
	open  atomic.Bool // it refuses nothing
	lets  atomic.Bool // whom it is asked for in though it refuses
	asked atomic.Int64
}

func (d *door) Admit() (time.Duration, bool) {
	d.asked.Add(1)
	return 250 * time.Millisecond, d.lets.Load()
}

const refusedAnswer = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 9\r\n\r\ntoo much\n"
const awayAnswer = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 9\r\n\r\ntoo many\n"

// config refuses what is below /shed.
func config(d *door) *Config {
	return &Config{
		Idle: 2 * time.Minute, Head: 10 * time.Second,
		Refuses: func() bool { return !d.open.Load() },
		GateOf: func(target []byte) Gate {
			if !bytes.HasPrefix(target, []byte("/shed")) {
				return nil
			}
			return d
		},
		Refusal:  func(b []byte, _ time.Duration) []byte { return append(b, refusedAnswer...) },
		TurnAway: func(b []byte) []byte { return append(b, awayAnswer...) },
	}
}

// join makes a server of connections that are wrapped. Each time one waits for its next request it says so.
func join(s *http.Server, opened func(*Conn)) (idle chan struct{}) {
	idle = make(chan struct{}, 100)
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if opened != nil {
			opened(conn.(*Conn))
		}
		return conn.(*Conn).Context(ctx)
	}
	s.ConnState = func(conn net.Conn, state http.ConnState) {
		conn.(*Conn).Changed(state)
		if state == http.StateIdle {
			select {
			case idle <- struct{}{}:
			default: // nobody waits for it
			}
		}
	}
	return idle
}

// server is one on a real socket.
type server struct {
	*httptest.Server
	idle chan struct{}
}

func start(t testing.TB, c *Config, h http.HandlerFunc, opened func(*Conn)) *server {
	srv := httptest.NewUnstartedServer(h)
	srv.Listener = c.Listen(srv.Listener)
	idle := join(srv.Config, opened)
	srv.Start()
	t.Cleanup(srv.Close)
	return &server{srv, idle}
}

// ask makes a request and returns the status and the body. After one that was served the server waits for the next
// one, and reads nothing ahead any more.
func (s *server) ask(t testing.TB, ctx context.Context, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode == http.StatusOK {
		<-s.idle
	}
	return resp.StatusCode, string(b)
}

func (s *server) get(t testing.TB, path string) (int, string) {
	t.Helper()
	return s.ask(t, t.Context(), "GET", path, "")
}

func TestRefusedAndThenServedOverOneConnection(t *testing.T) {
	var d door
	var served atomic.Int64
	srv := start(t, config(&d), func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, served.Add(1)) }, nil)
	conns := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{ConnectDone: func(string, string, error) { conns++ }})
	ask := func(method, path, body string) (int, string) { return srv.ask(t, ctx, method, path, body) }
	for n := range 5 {
		for range 3 {
			if code, text := ask("GET", "/shed", ""); code != 503 || text != "too much\n" {
				t.Fatalf("%d %q, want it refused", code, text)
			}
		}
		// Others are served, and so is everything after the flood; with bodies, too.
		if code, text := ask([]string{"GET", "PUT", "POST", "DELETE", "GET"}[n], "/other", strings.Repeat("x", n*1000)); code != 200 {
			t.Fatalf("%d %q", code, text)
		}
		d.open.Store(true)
		if code, text := ask("GET", "/shed?n", ""); code != 200 {
			t.Fatalf("%d %q", code, text)
		}
		d.open.Store(false)
	}
	if conns != 1 || served.Load() != 10 || d.asked.Load() != 15 {
		t.Errorf("%d connections, %d served, the gate was asked %d times", conns, served.Load(), d.asked.Load())
	}
}

func TestWhoIsLetInIsNotAskedForAgain(t *testing.T) {
	var d door
	srv := start(t, config(&d), func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, loadshed.Admitted(r.Context()))
	}, nil)
	d.lets.Store(true)
	for _, c := range []struct{ path, want string }{{"/shed", "true"}, {"/other", "false"}, {"/shed", "true"}, {"/other", "false"}} {
		if code, text := srv.get(t, c.path); code != 200 || text != c.want {
			t.Errorf("%s: %d, let in %s, want %s", c.path, code, text, c.want)
		}
	}
	d.open.Store(true)
	asked := d.asked.Load()
	if _, text := srv.get(t, "/shed"); text != "false" || d.asked.Load() != asked {
		t.Errorf("the gate is asked while it refuses nothing; let in: %s", text)
	}
}

// noted tells of reads of one byte that have got something: net/http's in the background.
type noted struct {
	net.Conn
	got chan struct{}
}

func (n *noted) Read(p []byte) (int, error) {
	m, err := n.Conn.Read(p)
	if len(p) == 1 && m == 1 {
		select {
		case n.got <- struct{}{}:
		default:
		}
	}
	return m, err
}

type notedListener struct {
	net.Listener
	got chan struct{}
}

func (l *notedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &noted{conn, l.got}, nil
}

// TestARequestThatComesWhileOneIsServed is read in part by then, so it is served; the next one is refused again.
func TestARequestThatComesWhileOneIsServed(t *testing.T) {
	var d door
	got, began := make(chan struct{}, 1), make(chan struct{}, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			began <- struct{}{}
			<-got
		}
		fmt.Fprint(w, r.URL.Path)
	}))
	srv.Listener = config(&d).Listen(&notedListener{srv.Listener, got})
	idle := join(srv.Config, nil)
	srv.Start()
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	send := func(path string) {
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(status int, text string) {
		t.Helper()
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != status || string(b) != text {
			t.Errorf("%d %q, want %d %q", resp.StatusCode, b, status, text)
		}
	}
	send("/shed/0")
	expect(503, "too much\n")
	send("/first")
	<-began
	send("/shed/1")
	expect(200, "/first")
	expect(200, "/shed/1")
	<-idle
	<-idle
	for range 3 {
		send("/shed/2")
		expect(503, "too much\n")
	}
}

func TestAFileIsSentWhole(t *testing.T) {
	var d door
	path := filepath.Join(t.TempDir(), "file")
	want := bytes.Repeat([]byte("0123456789"), 100_000)
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	srv := start(t, config(&d), func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) }, nil)
	for range 2 {
		if code, text := srv.get(t, "/file"); code != 200 || text != string(want) {
			t.Errorf("%d, %d bytes", code, len(text))
		}
		if code, _ := srv.get(t, "/shed"); code != 503 {
			t.Errorf("%d", code)
		}
	}
}

func TestWhoeverTakesAConnectionHasItAsItIs(t *testing.T) {
	var d door
	srv := start(t, config(&d), func(w http.ResponseWriter, r *http.Request) {
		conn, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.Copy(conn, io.LimitReader(in, 64)) // an echo
	}, nil)
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const head = "GET /shed/ab HTTP/1.1\r\nHost: x\r\n\r\n"
	if _, err := io.WriteString(conn, "GET /take HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := io.WriteString(conn, head[:32]); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 32)
		if _, err := io.ReadFull(conn, b); err != nil || string(b) != head[:32] {
			t.Fatalf("%q came back: %v", b, err)
		}
	}
}

// TestOneTooManyIsToldSo whatever it asks for, and can read it.
func TestOneTooManyIsToldSo(t *testing.T) {
	srv := start(t, &Config{Idle: time.Minute, Head: 10 * time.Second, TurnAway: config(nil).TurnAway}, func(http.ResponseWriter, *http.Request) {
		t.Error("it is served")
	}, (*Conn).TurnAway)
	for name, request := range map[string]string{
		"a head":       "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"of line ends": "GET / HTTP/1.0\n\n",
		"two":          strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 2),
		"a body":       "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000),
		"a long head":  "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 20_000) + "\r\nHost: x\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, request); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := io.ReadAll(conn); err != nil || string(b) != awayAnswer {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		_ = conn.Close()
	}
	resp, err := srv.Client().Post(srv.URL, "text/plain", bytes.NewReader(make([]byte, 100_000)))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 503 || !resp.Close {
		t.Errorf("%d, closes %v", resp.StatusCode, resp.Close)
	}
}
