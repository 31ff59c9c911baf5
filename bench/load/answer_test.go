package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

func TestAnswerReader_ReadsResponses(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, tc := range []struct {
		name, text string
		want       answer
		rest       string
		err        error
	}{
		{"with a length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP", answer{status: 200},
			"HTTP", nil},
		{"longer than the buffer", "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + long,
			answer{status: 200}, "", nil},
		{"names in other letters", "HTTP/1.1 200 OK\r\ncontent-LENGTH:\t2 \r\n\r\nab",
			answer{status: 200}, "", nil},
		{"in chunks",
			"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\nA \r\n0123456789\r\n0\r\nX: y\r\n\r\nrest",
			answer{status: 200}, "rest", nil},
		{"rejected", "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n",
			answer{503, 2 * time.Second, false}, "", nil},
		{"rejected for less than a second",
			"HTTP/1.1 503 S\r\nX-Berth-Retry-After: 250ms\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
			answer{503, 250 * time.Millisecond, false}, "", nil},
		{"rejected until a day",
			"HTTP/1.1 503 S\r\nRetry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\nContent-Length: 0\r\n\r\n",
			answer{status: 503}, "", nil},
		{"the last", "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 1\r\n\r\na",
			answer{status: 200, last: true}, "", nil},
		{"the last, without a length", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc",
			answer{status: 200, last: true}, "", nil},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\nHTTP", answer{status: 204}, "HTTP", nil},
		{"after hints", "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
			answer{status: 200}, "", nil},
		{"hints for ever", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 10), answer{}, "", errLong},
		{"nothing", "", answer{}, "", io.EOF},
		{"half a line", "HTTP/1.1 2", answer{}, "", io.ErrUnexpectedEOF},
		{"half a head", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", answer{}, "", io.ErrUnexpectedEOF},
		{"half a body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", answer{status: 200}, "",
			io.ErrUnexpectedEOF},
		{"half of the chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
			answer{status: 200}, "", io.ErrUnexpectedEOF},
		{"half a trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n",
			answer{status: 200}, "", io.ErrUnexpectedEOF},
		{"another protocol", "SSH-2.0-OpenSSH_9.2\r\n", answer{}, "", errHead},
		{"an older one", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", answer{}, "", errHead},
		{"no number", "HTTP/1.1 2x0 OK\r\n\r\n", answer{}, "", errHead},
		{"too small a number", "HTTP/1.1 099 OK\r\n\r\n", answer{}, "", errHead},
		{"a change of protocols", "HTTP/1.1 101 Switching Protocols\r\n\r\n", answer{}, "", errHead},
		{"lines of another kind", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", answer{}, "", errHead},
		{"no length", "HTTP/1.1 200 OK\r\n\r\n", answer{status: 200}, "", errLength},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", answer{}, "",
			errLength},
		{"a length and chunks", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na",
			answer{status: 200}, "", errLength},
		{"a length below nothing", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", answer{}, "", errLength},
		{"chunks that are packed", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", answer{}, "",
			errLength},
		{"a field without a name", "HTTP/1.1 200 OK\r\n: x\r\n\r\n", answer{}, "", errField},
		{"a field that goes on", "HTTP/1.1 200 OK\r\nX: y\r\n Content-Length: 1\r\n\r\n", answer{}, "", errField},
		{"a name with a space", "HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\n", answer{}, "", errField},
		{"a value with a line in it", "HTTP/1.1 200 OK\r\nX: y\rContent-Length: 1\r\n\r\n", answer{}, "", errField},
		{"a line that does not end", "HTTP/1.1 200 OK\r\nX: " + long, answer{}, "", errLong},
		{"fields that do not end", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 1000), answer{}, "", errLong},
		{"too long a body", "HTTP/1.1 200 OK\r\nContent-Length: 1073741825\r\n\r\n", answer{status: 200},
			"", errLong},
		{"a chunk that is longer than it says",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n", answer{status: 200},
			"", errChunk},
		{"a chunk of no size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", answer{status: 200},
			"", errChunk},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newAnswerReader(strings.NewReader(tc.text))
			got, err := r.next()
			if !errors.Is(err, tc.err) || got != tc.want {
				t.Fatalf("got %+v, %v; want %+v, %v", got, err, tc.want, tc.err)
			}
			if err != nil {
				return
			}
			if rest, _ := io.ReadAll(r); string(rest) != tc.rest {
				t.Errorf("%q is left, want %q", rest, tc.rest)
			}
		})
	}
}

// TestAnswerReader_ReadsResponsesOfAServer reads the output of net/http, one response after the other of one
// connection.
func TestAnswerReader_ReadsResponsesOfAServer(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/chunked":
			w.Header().Set("Trailer", "X-After")
			for range 3 {
				_, _ = io.WriteString(w, strings.Repeat("chunk ", 1000))
				_ = http.NewResponseController(w).Flush()
			}
			w.Header().Set("X-After", "all")
		case "/hints":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNoContent)
		case "/rejected":
			w.Header().Set("Retry-After", "3")
			http.Error(w, "too much", http.StatusServiceUnavailable)
		case "/last":
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, "bye")
		default:
			_, _ = io.WriteString(w, "hello")
		}
	}))
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := newRawConn(conn)
	if err != nil {
		t.Fatal(err)
	}
	in := newAnswerReader(raw)
	for _, tc := range []struct {
		path string
		want answer
	}{
		{"/", answer{status: 200}},
		{"/chunked", answer{status: 200}},
		{"/hints", answer{status: 204}},
		{"/rejected", answer{503, 3 * time.Second, false}},
		{"/", answer{status: 200}},
		{"/last", answer{status: 200, last: true}},
	} {
		if _, err := io.WriteString(raw, "GET "+tc.path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := in.next(); err != nil || got != tc.want || in.Buffered() > 0 {
			t.Fatalf("%s: %+v, %v, and %d bytes more; want %+v",
				tc.path, got, err, in.Buffered(), tc.want)
		}
	}
	if _, err := in.next(); err != io.EOF {
		t.Errorf("after the last answer came %v", err)
	}
}

func TestAnswerReader_ReturnsErrors(t *testing.T) {
	if err := (answer{status: 200}).err(); err != nil {
		t.Error(err)
	}
	if err := (answer{503, time.Second, true}).err(); !structs.IsKind(err, structs.KindUnavailable) ||
		structs.RetryAfter(err) != time.Second {
		t.Errorf("503 became %v, after %s", err, structs.RetryAfter(err))
	}
	if err := (answer{status: 404}).err(); err == nil || structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("404 became %v", err)
	}
}

func TestAnswerReader_AllocatesNothing(t *testing.T) {
	text := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
	from := bytes.NewReader(nil)
	r := newAnswerReader(from)
	if n := testing.AllocsPerRun(100, func() {
		from.Reset(text)
		r.Reset(from)
		if _, err := r.next(); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzAnswers compares the reader with net/http's: the latter accepts each response that the former accepts,
// with the same result.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 204 x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 503 x\r\nRetry-After: 7\r\nConnection: close\r\n\r\nbody",
		"HTTP/1.1 304 x\r\nContent-Length: 7\r\nConnection: keep-alive\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 8<<10 { // beyond, net/http minds how much of the chunks is not their content
			return
		}
		ours := newAnswerReader(bytes.NewReader(text))
		theirs := bufio.NewReader(bytes.NewReader(text))
		for {
			got, err := ours.next()
			if err != nil {
				return
			}
			resp, err := readTheirs(theirs)
			if err != nil {
				t.Fatalf("got %+v, net/http fails with %v", got, err)
			}
			if got.status != resp.StatusCode || got.last != resp.Close {
				t.Fatalf("got %+v, net/http %s and close %t", got, resp.Status, resp.Close)
			}
			if want, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16); err == nil &&
				len(resp.Header["Retry-After"]) == 1 &&
				resp.Header["X-Berth-Retry-After"] == nil && got.after != time.Duration(want)*time.Second {
				t.Fatalf("after %s, want %d s", got.after, want)
			}
			a, _ := ours.Peek(ours.Buffered())
			b, _ := theirs.Peek(theirs.Buffered())
			if len(text) < 4<<10 && !bytes.Equal(a, b) {
				t.Fatalf("%q is left, of net/http %q", a, b)
			}
		}
	})
}

// readTheirs reads an answer as net/http does.
func readTheirs(in *bufio.Reader) (resp *http.Response, err error) {
	for range mostInterim {
		resp, err = http.ReadResponse(in, &http.Request{Method: http.MethodGet})
		if err != nil {
			return nil, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err != nil || resp.StatusCode >= 200 {
			return resp, err
		}
	}
	return nil, errLong
}
