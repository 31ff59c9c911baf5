package httpshed

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// chunk is what one read gets, at most. What patient clients send comes only after what they sent before has been
// answered, so nobody reads ahead of it.
type chunk struct {
	bytes   []byte
	patient bool
}

// script is a connection of which is known what each read gets.
type script struct {
	mu      sync.Mutex
	changed *sync.Cond
	chunks  []chunk
	out     bytes.Buffer
	parts   []int // how much was written whenever a request had been answered, and at the end
	past    bool  // reads have run out of time
	closed  bool
}

func newScript(chunks []chunk) *script {
	s := &script{chunks: slices.Clone(chunks)}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *script) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(p) == 1 && len(s.chunks) > 0 && s.chunks[0].patient && !s.past && !s.closed {
		s.changed.Wait()
	}
	switch {
	case s.closed:
		return 0, net.ErrClosed
	case s.past:
		return 0, os.ErrDeadlineExceeded
	case len(s.chunks) == 0:
		return 0, io.EOF
	}
	n := copy(p, s.chunks[0].bytes)
	s.chunks[0].bytes, s.chunks[0].patient = s.chunks[0].bytes[n:], false
	if len(s.chunks[0].bytes) == 0 {
		s.chunks = s.chunks[1:]
	}
	return n, nil
}

func (s *script) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

func (s *script) part() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = append(s.parts, s.out.Len())
}

func (s *script) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.changed.Broadcast()
	return nil
}

func (s *script) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past = !t.IsZero() && t.Before(time.Now())
	s.changed.Broadcast()
	return nil
}

func (s *script) SetDeadline(t time.Time) error    { return s.SetReadDeadline(t) }
func (s *script) SetWriteDeadline(time.Time) error { return nil }
func (s *script) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (s *script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// one is a listener of one connection.
type one struct {
	conns chan net.Conn
	ended chan struct{}
	end   func()
}

func listenOnce(conn net.Conn) *one {
	o := &one{conns: make(chan net.Conn, 1), ended: make(chan struct{})}
	o.end = sync.OnceFunc(func() { close(o.ended) })
	o.conns <- conn
	return o
}

func (o *one) Accept() (net.Conn, error) {
	select {
	case conn := <-o.conns:
		return conn, nil
	case <-o.ended:
		return nil, net.ErrClosed
	}
}

func (o *one) Close() error   { o.end(); return nil }
func (o *one) Addr() net.Addr { return &net.TCPAddr{} }

// run lets a server serve a script, which is wrapped or not, and returns what happened in which order: "refused"
// with a target, or "served" with all that the handler saw.
func run(s *script, wrapped bool) (events []string) {
	o := listenOnce(s)
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			event := fmt.Sprintf("served %s %q %s %q", r.Method, r.RequestURI, r.Proto, r.Host)
			for _, name := range slices.Sorted(maps.Keys(r.Header)) {
				event += fmt.Sprintf(" %q:%q", name, r.Header[name])
			}
			event += fmt.Sprintf(" %q %v", body, err)
			events = append(events, event)
			w.Header()["Date"] = nil
			_, _ = io.WriteString(w, event)
		}),
		ReadHeaderTimeout: time.Hour, IdleTimeout: time.Hour, DisableGeneralOptionsHandler: true, ErrorLog: log.New(io.Discard, "", 0),
	}
	var ln net.Listener = o
	if wrapped {
		c, target := config(&door{}), ""
		gateOf, refusal := c.GateOf, c.Refusal
		c.GateOf = func(b []byte) Gate { target = string(b); return gateOf(b) }
		c.Refusal = func(b []byte, again time.Duration) []byte {
			events = append(events, "refused "+target)
			return refusal(b, again)
		}
		ln = c.Listen(o)
		join(srv, nil)
	}
	changed := srv.ConnState
	srv.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateIdle || state == http.StateClosed {
			s.part()
		}
		if changed != nil && state != http.StateClosed {
			changed(conn, state)
		}
		if state == http.StateClosed {
			o.end()
		}
	}
	_ = srv.Serve(ln)
	return events
}

// check compares what happens with and without the wrapper: all is the same, but that some requests that may be
// refused are. It returns what happened with it.
func check(t *testing.T, chunks []chunk) []string {
	t.Helper()
	alone, shed := newScript(chunks), newScript(chunks)
	want, got := run(alone, false), run(shed, true)
	if len(got) != len(want) {
		t.Fatalf("%d requests, without the wrapper %d:\n%s\n\n%s", len(got), len(want), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var out []byte
	at := 0
	for n, event := range got {
		target, refused := strings.CutPrefix(event, "refused ")
		switch {
		case !refused && event != want[n]:
			t.Fatalf("request %d is\n%s\nwithout the wrapper\n%s", n, event, want[n])
		case !refused:
			out = append(out, alone.out.Bytes()[at:alone.parts[n]]...)
		case !strings.HasPrefix(want[n], fmt.Sprintf(`served GET %q HTTP/1.1 `, target)) || !strings.HasSuffix(want[n], ` "" <nil>`):
			t.Fatalf("request %d to %s is refused; without the wrapper it is\n%s", n, target, want[n])
		default:
			out = append(out, refusedAnswer...)
		}
		at = alone.parts[n]
	}
	out = append(out, alone.out.Bytes()[at:]...) // what is not a request
	if !bytes.Equal(out, shed.out.Bytes()) {
		t.Fatalf("answered:\n%q\nwant\n%q", shed.out.Bytes(), out)
	}
	return got
}

// TestWhatIsRefusedAndWhatIsPassedOn: a "|" ends what one read gets, a "!" too, and the client waits there.
func TestWhatIsRefusedAndWhatIsPassedOn(t *testing.T) {
	const (
		shed   = "GET /shed HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n"
		other  = "GET /other HTTP/1.1\r\nHost: x\r\n\r\n"
		plain  = "GET /shed HTTP/1.1\r\nHost: x\r\n"
		posted = "POST /shed HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
	)
	for name, c := range map[string]struct{ sent, want string }{
		"one":                          {shed, "refused"},
		"one after the other":          {shed + "!" + shed + "!" + other + "!" + shed + "!" + shed, "refused refused served refused refused"},
		"a head in two reads":          {shed[:10] + "|" + shed[10:] + "!" + shed, "served served"},
		"its end in another read":      {shed[:len(shed)-1] + "|" + shed[len(shed)-1:] + "!" + shed, "served served"},
		"two in one read":              {shed + shed + "!" + shed, "served served served"},
		"one and a half":               {shed + shed[:20] + "|" + shed[20:] + "!" + shed, "served served served"},
		"one and a line, and a head":   {other + "GET /o HTTP/1.1\r\n" + "!" + shed, "served"}, // "GET /shed ..." is no field
		"one and a line, and fields":   {other + "GET /o HTTP/1.1\r\n" + "!" + "Host: x\r\n\r\n!" + shed, "served served served"},
		"one and its first byte":       {other + "G!" + shed[1:] + "!" + shed, "served served served"},
		"a body":                       {posted + "body!" + shed, "served refused"},
		"a body in two reads":          {posted + "bo|dy!" + shed, "served refused"},
		"a body and a request behind":  {posted + "body" + other + "!" + shed, "served served served"},
		"a body with a request in it":  {"PUT /o HTTP/1.1\r\nHost: x\r\nContent-Length: 44\r\n\r\n" + "!" + shed + "!" + shed, "served refused"},
		"a body of a GET":              {plain + "Content-Length: 4\r\n\r\nbody!" + shed, "served refused"},
		"a body of a GET, later":       {plain + "Content-Length: 4\r\n\r\n!body!" + shed, "served served"},
		"a body of nothing":            {plain + "Content-Length: 0\r\n\r\n!" + shed, "served refused"},
		"two lengths":                  {plain + "Content-Length: 4\r\nContent-Length: 4\r\n\r\nbody!" + shed, "served served"},
		"in pieces":                    {plain + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n!" + shed, "served served"},
		"in pieces, and a length":      {plain + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n!" + shed, "served served"},
		"HTTP/1.0":                     {"GET /shed HTTP/1.0\r\nHost: x\r\n\r\n", "served"},
		"HTTP/1.0 kept":                {"GET /shed HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n!" + shed, "served refused"},
		"kept":                         {plain + "Connection: Keep-Alive\r\n\r\n!" + shed, "refused refused"},
		"the last one":                 {plain + "Connection: close\r\n\r\n!" + shed, "served"},
		"an upgrade":                   {plain + "Connection: Upgrade\r\nUpgrade: x\r\n\r\n!" + shed, "served refused"},
		"an expectation":               {plain + "Expect: 100-continue\r\n\r\n!" + shed, "served refused"},
		"no host":                      {"GET /shed HTTP/1.1\r\nAccept: x\r\n\r\n!" + shed, ""},
		"two hosts":                    {plain + "Host: x\r\n\r\n!" + shed, ""},
		"a wrong host":                 {"GET /shed HTTP/1.1\r\nHost: a b\r\n\r\n!" + shed, ""},
		"lines that end otherwise":     {"GET /shed HTTP/1.1\nHost: x\n\n!" + shed, "served refused"},
		"two of them":                  {"GET /a HTTP/1.1\nHost: x\n\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n!" + shed, "served served served"},
		"a field over two lines":       {plain + "A: b\r\n c\r\n\r\n!" + shed, "served refused"},
		"a line of blanks":             {plain + " \r\n\r\n!" + shed, ""},
		"a blank before the colon":     {plain + "A : b\r\n\r\n!" + shed, ""},
		"a target with a scheme":       {"GET http://x/shed HTTP/1.1\r\nHost: x\r\n\r\n!" + shed, "served refused"},
		"another method":               {"HEAD /shed HTTP/1.1\r\nHost: x\r\n\r\n!" + shed, "served served"},
		"a method in small letters":    {"get /shed HTTP/1.1\r\nHost: x\r\n\r\n!" + shed, "served served"},
		"blank lines after a POST":     {posted + "body!\r\n" + shed + "!" + shed, "served served served"},
		"what is no request":           {shed + "!nonsense\r\n\r\n!" + shed, "refused"},
		"an end in the middle":         {shed + "!" + shed[:20], "refused"},
		"nothing":                      {"", ""},
		"a head of exactly the buffer": {plain + "A: " + strings.Repeat("a", 4096-len(plain)-7) + "\r\n\r\n!" + shed, "refused refused"},
		"a head larger than it":        {plain + "A: " + strings.Repeat("a", 4096-len(plain)-6) + "\r\n\r\n!" + shed, "served served"},
	} {
		t.Run(name, func(t *testing.T) {
			var chunks []chunk
			patient := false
			for rest := c.sent; rest != ""; {
				n := strings.IndexAny(rest, "|!")
				if n < 0 {
					n = len(rest)
				}
				chunks = append(chunks, chunk{[]byte(rest[:n]), patient})
				patient = n < len(rest) && rest[n] == '!'
				rest = rest[min(n+1, len(rest)):]
			}
			var got []string
			for _, event := range check(t, chunks) {
				what, _, _ := strings.Cut(event, " ")
				got = append(got, what)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%q, want %q", strings.Join(got, " "), c.want)
			}
		})
	}
}

// FuzzNothingIsLost sends bytes, cut somehow, with and without the wrapper. Each cut is of so many bytes as its
// lower bits say; with the highest one the client waits before it.
func FuzzNothingIsLost(f *testing.F) {
	const shed, other = "GET /shed?a=b HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n", "GET /other HTTP/1.1\r\nHost: x:80\r\n\r\n"
	for _, seed := range []struct {
		cuts []byte
		sent string
	}{
		{[]byte{0, 0x80}, shed},
		{[]byte{60, 0x80 | 36, 0x80 | 60}, shed + other + shed},
		{[]byte{36, 60, 0x80 | 60}, other + shed + shed},
		{[]byte{36, 1, 59, 0x80 | 60}, other + shed + shed},
		{[]byte{57, 0x80 | 60}, "PUT /o HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n0123456789" + shed},
		{[]byte{20, 0x80 | 60}, "GET /a HTTP/1.1\nHost: x\n\n" + other + shed},
		{[]byte{56, 10, 0x80 | 60}, "PUT /o HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + shed},
		{[]byte{53, 0x80 | 60}, other + "GET /o HTTP/1.1\r\n" + shed},
	} {
		f.Add(seed.cuts, []byte(seed.sent))
	}
	f.Fuzz(func(t *testing.T, cuts, sent []byte) {
		// net/http forgives blank lines where the request before was a POST. It cannot know of one that was
		// refused in between, so there it forgives once more than it would by itself.
		sent = bytes.ReplaceAll(sent, []byte("POST"), []byte("PUT "))
		sent = sent[:min(len(sent), 3000)] // so that no read but one ahead is of one byte
		var chunks []chunk
		for _, cut := range cuts {
			n := min(int(cut&0x7f), len(sent))
			if n > 0 {
				chunks = append(chunks, chunk{sent[:n], cut&0x80 != 0})
			}
			sent = sent[n:]
		}
		if len(sent) > 0 {
			chunks = append(chunks, chunk{sent, len(cuts)%2 == 0})
		}
		check(t, chunks)
	})
}
