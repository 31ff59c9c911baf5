package api_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/api"
	"berth/api/allocs"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/internal/allocdir"
	"berth/structs"
	"berth/test/kit"
)

// writeFiles lets the server's agent have the files of the allocation "here" until ended is closed.
func writeFiles(t testing.TB, agent *apitest.Agent) (dir string, ended chan struct{}) {
	t.Helper()
	dir = t.TempDir()
	ended = make(chan struct{})
	for path, text := range map[string]string{
		"alloc/data/f":      "one\ntwo\nthree\n",
		"web/secrets/token": "SECRET",
	} {
		path = filepath.Join(dir, path)
		kit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		kit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	agent.Files = func(allocID string) (api.Dir, error) {
		if allocID != "here" {
			return api.Dir{}, structs.NotFoundf("allocation %s is not here", allocID)
		}
		return api.Dir{Path: dir, Ended: ended}, nil
	}
	return dir, ended
}

func TestFiles_Requests(t *testing.T) {
	s := newServer(t)
	writeFiles(t, s.agent)
	for _, c := range []struct {
		target string
		status int
		want   string // a part of the answer
	}{
		{"ls/here", 200, `"Name":"alloc","IsDir":true`},
		{"ls/here?path=/alloc", 200, `"Name":"data"`},
		{"ls/here?path=alloc/data/f", 400, "is not a directory"},
		{"ls/here?path=none", 404, "has no file"},
		{"ls/here?path=web/secrets", 403, "among the secrets"},
		{"ls/here?path=../", 403, "leads out of"},
		{"stat/here?path=alloc/data/f", 200, `"Size":14,"FileMode":"-rw-------"`},
		{"stat/here", 400, `the parameter path is ""`},
		{"cat/here?path=alloc/data/f", 200, "one\ntwo\nthree\n"},
		{"cat/here?path=alloc/data/f&offset=3&limit=2", 200, "one\ntwo\nthree\n"},
		{"cat/here", 400, `the parameter path is ""`},
		{"cat/here?path=alloc", 400, "is a directory"},
		{"cat/here?path=web/secrets/token", 403, "among the secrets"},
		{"cat/here?path=%2e%2e%2fx", 403, "leads out of"},
		{"cat/here?path=" + strings.Repeat("a/", 3000), 400, "expected at most 4096"},
		{"readat/here?path=alloc/data/f&offset=4&limit=3", 200, "two"},
		{"readat/here?path=alloc/data/f&offset=4&limit=0", 200, "two\nthree\n"},
		{"readat/here?path=alloc/data/f&offset=4&limit=-1", 200, "two\nthree\n"},
		{"readat/here?path=alloc/data/f&offset=99&limit=9", 200, ""},
		{"readat/here?path=alloc/data/f&offset=9223372036854775807&limit=9223372036854775807", 200, ""},
		{"readat/here?path=alloc/data/f&offset=-1", 400, "the parameter offset"},
		{"readat/here?path=alloc/data/f&limit=9223372036854775808", 400, "the parameter limit"},
		{"stream/here?path=alloc/data/f&follow=false&plain=true", 200, "one\ntwo\nthree\n"},
		{"stream/here?path=alloc/data/f&follow=false&plain=true&origin=end&offset=6", 200, "three\n"},
		{"stream/here?path=alloc/data/f&follow=false&plain=true&origin=end&lines=2", 200, "two\nthree\n"},
		{"stream/here?path=alloc/data/f&follow=false&lines=2", 400, "expected origin=end"},
		{"stream/here?path=alloc/data/f&follow=false&origin=end&lines=100001", 400, "at most 100000"},
		{"stream/here?path=alloc/data/f&follow=maybe", 400, "the parameter follow"},
		{"stream/here?path=alloc/data/f&origin=middle", 400, "expected start or end"},
		{"stream/here?path=alloc/data&follow=false", 400, "is a directory"},
		{"stream/here", 400, `the parameter path is ""`},
	} {
		resp, body := s.do(t, "GET", "/v1/client/fs/"+c.target, "")
		whole := c.status == 200 && !strings.Contains(c.want, `":`)
		if resp.StatusCode != c.status || !strings.Contains(body, c.want) || whole && body != c.want {
			t.Errorf("%.80s: got %d %q, want %d %q", c.target, resp.StatusCode, body, c.status, c.want)
		}
		if strings.Contains(body, "SECRET") {
			t.Errorf("%s: the answer has a secret", c.target)
		}
		sniff := resp.Header.Get("X-Content-Type-Options")
		if strings.HasPrefix(c.target, "cat") && c.status == 200 && sniff != "nosniff" {
			t.Errorf("%s: a browser may run the file", c.target)
		}
	}
}

// TestFiles_AreForwardedOnce: an agent forwards a request to the agent of the node, and no further.
func TestFiles_AreForwardedOnce(t *testing.T) {
	far, near := newServer(t), newServer(t)
	writeFiles(t, far.agent)
	for _, s := range []*server{far, near} {
		apitest.Answer(s.caller, structs.AllocGet, structs.AllocGetResponse{
			Alloc: &structs.Allocation{ID: "here", NodeID: "n"},
		})
		apitest.Answer(s.caller, structs.NodeGet, structs.NodeGetResponse{
			Node: &structs.NodeDetail{Node: structs.Node{
				ID:       "n",
				HTTPAddr: strings.TrimPrefix(far.URL, "http://"),
			}},
		})
	}
	for target, want := range map[string]string{
		"ls/here?path=alloc":                                    `"Name":"data"`,
		"stat/here?path=alloc":                                  `"IsDir":true`,
		"cat/here?path=alloc/data/f":                            "one",
		"readat/here?path=alloc/data/f&offset=4":                "two",
		"stream/here?path=alloc/data/f&follow=false&plain=true": "one",
		"ls/here?path=none":                                     "has no file",
		"ls/gone?path=alloc":                                    "allocation gone is not here",
	} {
		_, body := near.do(t, "GET", "/v1/client/fs/"+target, "")
		if !strings.Contains(body, want) {
			t.Errorf("%s: got %q, want %q", target, body, want)
		}
	}
	if calls := far.caller.Take(); len(calls) > 0 {
		t.Errorf("the far agent has called %v", calls)
	}
}

// frames decodes the frames of an answer.
type frames struct {
	t   *testing.T
	dec *json.Decoder
}

// next returns the next frame that is no heartbeat.
func (f *frames) next() api.Frame {
	f.t.Helper()
	for {
		var frame api.Frame
		kit.Must(f.t, f.dec.Decode(&frame))
		if len(frame.Data) > 0 || frame.FileEvent != "" {
			return frame
		}
	}
}

func TestFiles_FollowAFileInFrames(t *testing.T) {
	s := newServer(t)
	dir, ended := writeFiles(t, s.agent)
	path := filepath.Join(dir, "alloc/data/f")
	resp, err := http.Get(s.URL + "/v1/client/fs/stream/here?path=alloc/data/f&offset=8")
	kit.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	in := &frames{t, json.NewDecoder(resp.Body)}
	check := func(data, event string, offset int64) {
		t.Helper()
		f := in.next()
		if string(f.Data) != data || f.FileEvent != event || f.Offset != offset || f.File != "alloc/data/f" {
			t.Fatalf("got %q %q at %d of %q", f.Data, f.FileEvent, f.Offset, f.File)
		}
	}
	check("three\n", "", 14)
	kit.Must(t, os.Truncate(path, 0))
	check("", allocdir.Truncated, 0)
	kit.Must(t, os.WriteFile(path, []byte("four"), 0o600))
	check("four", "", 4)
	close(ended)
	if _, err := io.ReadAll(io.MultiReader(in.dec.Buffered(), resp.Body)); err != nil {
		t.Errorf("after the end of the allocation: %v", err)
	}
}

func TestFiles_FollowerSeesADeletedFile(t *testing.T) {
	s := newServer(t)
	dir, _ := writeFiles(t, s.agent)
	resp, err := http.Get(s.URL + "/v1/client/fs/stream/here?path=alloc/data/f&origin=end")
	kit.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	kit.Must(t, os.Remove(filepath.Join(dir, "alloc/data/f")))
	in := &frames{t, json.NewDecoder(resp.Body)}
	if f := in.next(); f.FileEvent != allocdir.Deleted || f.Offset != 14 {
		t.Errorf("got %+v", f)
	}
	if err := in.dec.Decode(&api.Frame{}); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end", err)
	}
}

// TestFiles_FaultEndsTheConnection: a client must not take a part of a file for the whole.
func TestFiles_FaultEndsTheConnection(t *testing.T) {
	s := newServer(t)
	dir, _ := writeFiles(t, s.agent)
	resp, err := http.Get(s.URL + "/v1/client/fs/stream/here?path=alloc/data/f&plain=true")
	kit.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	in := bufio.NewReader(resp.Body)
	if _, err := in.ReadString('t'); err != nil {
		t.Fatal(err)
	}
	kit.Must(t, os.Remove(filepath.Join(dir, "alloc/data/f")))
	kit.Must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "alloc/data/f")))
	rest, err := io.ReadAll(in)
	if err == nil || strings.Contains(string(rest), "root:") {
		t.Errorf("got %q, %v; want an error", rest, err)
	}
}

// TestFiles_SlowReaderIsDropped: a client that takes nothing holds neither memory nor one of the streams.
func TestFiles_SlowReaderIsDropped(t *testing.T) {
	agent := newAgent()
	dir, _ := writeFiles(t, agent)
	kit.Must(t, os.Truncate(filepath.Join(dir, "alloc/data/f"), 1<<30))
	served := make(chan struct{}, 2)
	h := api.NewHandler(api.Config{
		Routes:      areas.Routes(),
		Caller:      &apitest.Caller{},
		Agent:       agent,
		Logger:      hclog.NewNullLogger(),
		StreamStall: 50 * time.Millisecond,
	})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { served <- struct{}{} }()
		h.ServeHTTP(w, r)
	}))
	defer s.Close()
	for _, verb := range []string{"cat", "stream"} {
		resp, err := http.Get(s.URL + "/v1/client/fs/" + verb + "/here?path=alloc/data/f")
		select {
		case <-served:
		case <-time.After(time.Minute):
			t.Errorf("%s: the handler waits for a client that reads nothing", verb)
		}
		if err == nil { // an agent that stood still may drop the client before its answer begins
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: got status %d, want 200", verb, resp.StatusCode)
			}
			_ = resp.Body.Close()
		}
	}
}

// TestFiles_StreamsAreBounded: one caller gets a number of streams at a time and not one more, while another
// caller gets its own. A stream that ends gives its slot back.
func TestFiles_StreamsAreBounded(t *testing.T) {
	s := newServer(t)
	writeFiles(t, s.agent)
	opens := func(from string) (status int, end func()) {
		t.Helper()
		d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		tr := &http.Transport{DialContext: d.DialContext}
		resp, err := (&http.Client{Transport: tr}).Get(s.URL + "/v1/client/fs/stream/here?path=alloc/data/f")
		kit.Must(t, err)
		return resp.StatusCode, func() { _ = resp.Body.Close() }
	}
	var ends []func()
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	take := func(from string, want int) {
		t.Helper()
		status, end := opens(from)
		ends = append(ends, end)
		if status != want {
			t.Fatalf("stream %d, from %s: got the status %d, want %d", len(ends), from, status, want)
		}
	}

	for _, from := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"} {
		for range api.MaxOwnStreams {
			take(from, http.StatusOK)
		}
		take(from, http.StatusTooManyRequests)
	}
	take("127.0.0.6", http.StatusServiceUnavailable)

	ends[0]() // one of 127.0.0.2; its handler sees the end a moment later
	for {
		status, end := opens("127.0.0.2")
		ends = append(ends, end)
		if status == http.StatusOK {
			return
		}
		if t.Context().Err() != nil || status != http.StatusTooManyRequests {
			t.Fatalf("got the status %d, want 200 after the end of a stream", status)
		}
	}
}

func TestFiles_ClientCalls(t *testing.T) {
	s := newServer(t)
	writeFiles(t, s.agent)
	c := api.NewClient(api.ClientConfig{Address: s.URL})
	defer c.Close()
	files, err := allocs.ListFiles(t.Context(), c, "here", "alloc")
	if err != nil || len(files) != 1 || files[0].Name != "data" {
		t.Errorf("got %v, %v", files, err)
	}
	file, err := allocs.StatFile(t.Context(), c, "here", "alloc/data/f")
	if err != nil || file.Size != 14 || file.ContentType == "" {
		t.Errorf("got %v, %v", file, err)
	}
	read := func(r io.ReadCloser, err error) string {
		t.Helper()
		kit.Must(t, err)
		defer func() { _ = r.Close() }()
		b, err := io.ReadAll(r)
		kit.Must(t, err)
		return string(b)
	}
	const path = "alloc/data/f"
	part := allocs.FilePart{Offset: 4, Limit: 3}
	if got := read(allocs.ReadAt(t.Context(), c, "here", path, part)); got != "two" {
		t.Errorf("got %q", got)
	}
	for want, o := range map[string]allocs.FileOptions{
		"three\n":           {Lines: 1},
		"ee\n":              {FromEnd: true, Offset: 3},
		"two\nthree\n":      {Offset: 4},
		"one\ntwo\nthree\n": {},
	} {
		if got := read(allocs.StreamFile(t.Context(), c, "here", path, o)); got != want {
			t.Errorf("%+v: got %q, want %q", o, got, want)
		}
	}
}

// TestFiles_LeakNothingWhileATaskSwapsFiles is the attack of a task on a user of the API: see the test of
// allocdir with that name.
func TestFiles_LeakNothingWhileATaskSwapsFiles(t *testing.T) {
	s := newServer(t)
	dir, _ := writeFiles(t, s.agent)
	host := t.TempDir()
	kit.Must(t, os.WriteFile(filepath.Join(host, "f"), []byte("SECRET"), 0o600))
	link := filepath.Join(dir, "alloc/link")
	kit.Must(t, os.Symlink(host, link))
	stop := make(chan struct{})
	stopped := make(chan error)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				err = unix.Renameat2(unix.AT_FDCWD, link, unix.AT_FDCWD, filepath.Join(dir, "alloc/data"),
					unix.RENAME_EXCHANGE)
			}
		}
		stopped <- err
	}()
	statuses := map[int]int{}
	targets := []string{
		"cat/here?path=alloc/data/f",
		"readat/here?path=alloc/data/f&offset=0&limit=6",
		"stream/here?path=alloc/data/f&follow=false&plain=true",
		"ls/here?path=alloc/data",
		"stat/here?path=alloc/data/f",
	}
	for i := range 400 * len(targets) {
		target := targets[i%len(targets)]
		resp, body := s.do(t, "GET", "/v1/client/fs/"+target, "")
		statuses[resp.StatusCode]++
		if strings.Contains(body, "SECRET") || strings.Contains(body, `"Size":6`) {
			t.Fatalf("%s: got %q", target, body)
		}
	}
	close(stop)
	kit.Must(t, <-stopped)
	if statuses[200] == 0 || statuses[403] == 0 || statuses[200]+statuses[403] != 400*len(targets) {
		t.Errorf("the swaps and the requests did not meet: %v", statuses)
	}
}

// FuzzFiles checks that no path and no parameter of the routes of files leads out of the allocation, and that
// the errors are classified.
func FuzzFiles(f *testing.F) {
	agent := newAgent()
	dir, ended := writeFiles(f, agent)
	close(ended)
	host := f.TempDir()
	kit.Must(f, os.WriteFile(filepath.Join(host, "passwd"), []byte("SECRET"), 0o600))
	kit.Must(f, os.Symlink(host, filepath.Join(dir, "alloc/out")))
	kit.Must(f, os.Symlink("../web/secrets", filepath.Join(dir, "alloc/in")))
	h := api.NewHandler(api.Config{
		Routes: areas.Routes(),
		Caller: &apitest.Caller{},
		Agent:  agent,
		Logger: hclog.NewNullLogger(),
	})
	for _, verb := range []string{"ls", "stat", "cat", "readat", "stream", "logs"} {
		f.Add(verb, "here", "path=alloc/data/f&offset=1&limit=2&origin=end&lines=1&plain=true")
		f.Add(verb, "here", "path=../../etc/passwd&follow=true")
		f.Add(verb, "here", "path=alloc/out/passwd&follow=false")
		f.Add(verb, "..%2fhere", "path=alloc/in/token&offset=-1")
		f.Add(verb, "here", "path=%00&limit=99999999999999999999&task=t&type=stdout")
	}
	f.Fuzz(func(t *testing.T, verb, id, query string) {
		r, err := http.NewRequest("GET", "http://localhost/v1/client/fs/"+verb+"/"+id+"?"+query, nil)
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if strings.Contains(w.Body.String(), "SECRET") || strings.Contains(w.Body.String(), "panicked") {
			t.Fatalf("%s: %q", r.URL, w.Body)
		}
		if w.Code >= 500 && w.Code != http.StatusServiceUnavailable {
			t.Fatalf("%s: %d %q", r.URL, w.Code, w.Body)
		}
	})
}
