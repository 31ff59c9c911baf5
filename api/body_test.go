package api_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/internal/keyring"
	"berth/structs"
)

// idleServer rejects bodies of which nothing arrives for a time.
func idleServer(t *testing.T, idle time.Duration) *server {
	s := &server{caller: &apitest.Caller{}, agent: newAgent()}
	s.Server = httptest.NewServer(api.NewHandler(api.Config{
		Routes:   areas.Routes(),
		Caller:   s.caller,
		Agent:    s.agent,
		Logger:   hclog.NewNullLogger(),
		BodyIdle: idle,
	}))
	t.Cleanup(s.Close)
	return s
}

// sendHead sends the header of a request whose body has a length.
func sendHead(t *testing.T, s *server, request string, length int) (
	net.Conn, *bufio.Reader,
) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute)) // a test that fails ends
	_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n",
		request, length)
	if err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// readToEnd reads the answer and expects the end of the connection after it.
func readToEnd(t *testing.T, r *bufio.Reader) (status int, body string) {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.ReadByte()
	if err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the connection stays: %v", err)
	}
	return resp.StatusCode, string(b)
}

func TestBody_ThatNeverArrivesClosesTheConnection(t *testing.T) {
	s := idleServer(t, 50*time.Millisecond)
	for request, want := range map[string]int{
		"PUT /v1/jobs":               408,
		"PUT /v1/operator/snapshot":  408,
		"PUT /v1/node/n/eligibility": 408,
		// These do not read the body.
		"GET /v1/agent/self": 200,
		"DELETE /v1/jobs":    405,
		"GET /nothing":       404,
	} {
		t.Run(request, func(t *testing.T) {
			_, r := sendHead(t, s, request, 100)
			if status, body := readToEnd(t, r); status != want {
				t.Errorf("got status %d, want %d: %s", status, want, body)
			}
		})
	}
}

func TestBody_ThatArrivesTooSlowlyClosesTheConnection(t *testing.T) {
	s := idleServer(t, 100*time.Millisecond)
	conn, r := sendHead(t, s, "PUT /v1/jobs", 1<<20)
	stop := make(chan struct{})
	var sender sync.WaitGroup
	defer sender.Wait()
	defer close(stop)
	sender.Go(func() { // far below the rate that is expected
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				_, _ = conn.Write([]byte(" "))
			}
		}
	})
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusRequestTimeout {
		t.Fatalf("got %v and error %v, want status 408", resp, err)
	}
}

// beginVirtually serves one connection in virtual time, in which nothing is late, and sends the header of a
// request with a body of a length. It returns the end of the client.
func beginVirtually(t *testing.T, c api.Config, request string, length int) (net.Conn, *bufio.Reader) {
	t.Helper()
	c.Routes = areas.Routes()
	c.Caller = &apitest.Caller{}
	c.Logger = hclog.NewNullLogger()
	srv := &http.Server{Handler: api.NewHandler(c)}
	listener := newPipes()
	go func() { _ = srv.Serve(listener) }()
	here, there := net.Pipe()
	listener.conns <- there
	_ = here.SetDeadline(time.Now().Add(time.Minute)) // a test that fails ends
	t.Cleanup(func() {
		_ = here.Close()
		_ = srv.Close()
	})
	_, err := fmt.Fprintf(here, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n",
		request, length)
	if err != nil {
		t.Fatal(err)
	}
	return here, bufio.NewReader(here)
}

func TestBody_OfAStreamMayArriveSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parts = 80
		agent := newAgent()
		conn, r := beginVirtually(t, api.Config{
			Caller:   &apitest.Caller{},
			Agent:    agent,
			BodyIdle: 500 * time.Millisecond,
		},
			"PUT /v1/operator/snapshot", parts)
		for range parts {
			time.Sleep(400 * time.Millisecond) // virtual
			_, err := conn.Write([]byte("x"))
			if err != nil {
				t.Fatal(err)
			}
		}
		resp, err := http.ReadResponse(r, nil)
		restored := len(agent.Restored())
		if err != nil || resp.StatusCode != http.StatusOK || restored != parts {
			t.Fatalf("got %v, error %v and %d bytes, want %d bytes", resp, err, restored, parts)
		}
	})
}

// restorer reads past the end of the archive and then takes some time.
type restorer struct {
	*apitest.Agent
	ended chan error // why the request had ended by then
}

func (a restorer) SnapshotRestore(ctx context.Context, _ string, r io.Reader, _ keyring.RestoreKeys) error {
	_, err := io.ReadAll(r)
	n, end := r.Read(make([]byte, 1))
	if err != nil || n > 0 || end != io.EOF {
		return structs.Errorf(structs.KindInternal, "%v, then %d bytes and %v", err, n, end)
	}
	select {
	case <-ctx.Done():
	case <-time.After(200 * time.Millisecond):
	}
	a.ended <- ctx.Err()
	return nil
}

func TestBody_ThatHasArrivedHasNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		const archive = "an archive"
		conn, r := beginVirtually(t, api.Config{
			Caller:   &apitest.Caller{},
			Agent:    restorer{newAgent(), ended},
			BodyIdle: 20 * time.Millisecond,
		}, "PUT /v1/operator/snapshot", len(archive))
		_, err := conn.Write([]byte(archive))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("got %v, error %v, want status 200", resp, err)
		}
		if err := <-ended; err != nil {
			t.Errorf("the context of the request ended before the answer: %v", err)
		}
	})
}

func TestBody_SizeIsBoundedByRoute(t *testing.T) {
	s := newServer(t)
	large := strings.Repeat(" ", structs.MaxHTTPBody)
	parts := `{"Job":{"ID":"j","TaskGroups":[` + strings.Repeat("{},", structs.MaxJSONParts) + `{}]}}`
	nulls := `{"Job":{"TaskGroups":[` + strings.Repeat("null,\n null, ", structs.MaxJSONParts/2) + `null]}}`
	var fields strings.Builder
	for i := range structs.MaxJSONParts {
		fmt.Fprintf(&fields, `"k%d": null,`, i)
	}
	for _, c := range []struct {
		path, body, want string
		status           int
	}{
		{"/v1/node/n/eligibility", large + "{}", "the body is larger than 1048576 bytes", 413},
		{"/v1/jobs", large + `{"Job":{"ID":"j"}}`, "nothing answers", 503},
		{"/v1/jobs", nulls, "the body has more than 100000 objects, lists and null elements", 413},
		{"/v1/jobs", `{"Job":{"ID":"j","Meta":{` + fields.String() + `"k":null}}}`, "nothing answers", 503},
		{"/v1/jobs", parts, "the body has more than 100000 objects, lists and null elements", 413},
	} {
		resp, body := s.do(t, "PUT", c.path, c.body)
		if resp.StatusCode != c.status || !strings.HasPrefix(body, c.want) {
			t.Errorf("%s: got status %d, want %d: %.200s",
				c.path, resp.StatusCode, c.status, body)
		}
		if kind := resp.Header.Get("X-Berth-Error-Kind"); c.status == 413 &&
			(kind != "invalid" || !resp.Close) {
			t.Errorf("%s: got kind %q and closed %v, want kind invalid and a closed connection",
				c.path, kind, resp.Close)
		}
	}
}

func TestBodies_InFlightAreBoundedTogether(t *testing.T) {
	s := newServer(t)
	began, release := make(chan struct{}), make(chan struct{})
	apitest.On(s.caller, structs.JobRegister,
		func(context.Context, *structs.JobRegisterRequest) (*structs.JobRegisterResponse, error) {
			select {
			case began <- struct{}{}:
			case <-release:
			}
			<-release
			return &structs.JobRegisterResponse{}, nil
		})
	body := `{"Job":{"ID":"j","TaskGroups":[` + strings.Repeat("{},", 90_000) + `{}]}}`
	const fit = structs.MaxHTTPBodies / (90_003*structs.JSONPartBytes + 300_000)
	var requests sync.WaitGroup
	// With a timeout a test that fails ends.
	client := &http.Client{Timeout: 2 * time.Minute, Transport: http.DefaultTransport}
	put := func() (int, string) {
		req, err := http.NewRequest("PUT", s.URL+"/v1/jobs", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}
	for range fit {
		requests.Go(func() {
			if status, _ := put(); status != http.StatusOK {
				t.Errorf("a body within the budget: got status %d, want 200", status)
			}
		})
		<-began
	}
	if status, again := put(); status != http.StatusServiceUnavailable || again == "" {
		t.Errorf("a body beyond the budget: got status %d, Retry-After %q", status, again)
	}
	resp, text := s.do(t, "PUT", "/v1/node/n/eligibility", `{"Eligibility":"eligible"}`)
	if !strings.HasPrefix(text, "nothing answers") {
		t.Errorf("a small body beside large ones: got status %d: %s", resp.StatusCode, text)
	}
	close(release)
	requests.Wait()
	if status, _ := put(); status != http.StatusOK {
		t.Errorf("after the release of the budget: got status %d, want 200", status)
	}
}

func TestAccessLog_NamesStatusSizeAndRemote(t *testing.T) {
	var out bytes.Buffer
	caller := &apitest.Caller{}
	h := api.NewHandler(api.Config{
		Routes:       areas.Routes(),
		Caller:       caller,
		Agent:        newAgent(),
		AllowedHosts: []string{"example.com"},
		Logger: hclog.New(&hclog.LoggerOptions{
			Output: &out,
			Level:  hclog.Debug,
		}),
	})
	for want, edit := range map[string]func(*http.Request){
		"/v1/regions status=200 size=11 remote=192.0.2.1:1234 took=": func(*http.Request) {},
		"/v1/nothing status=404 size=46 remote=192.0.2.1:1234 took=": func(r *http.Request) {
			r.URL.Path = "/v1/nothing"
		},
		"/v1/regions status=403 size=120 remote=192.0.2.1:1234 took=": func(r *http.Request) {
			r.Host = "evil.example"
		},
	} {
		r := httptest.NewRequest("GET", "/v1/regions", nil)
		edit(r)
		out.Reset()
		h.ServeHTTP(httptest.NewRecorder(), r)
		want = "method=GET path=" + want
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nwant %s", out.String(), want)
		}
	}
}
