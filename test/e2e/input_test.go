package e2e

import (
	"bytes"
	"cmp"
	endian "encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/api/areas"
	"berth/structs"
)

func TestInput_ErrorsHavePositions(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-dev")
	a.start()
	for _, c := range []struct {
		name, content string
		args          []string
		says          []string
	}{
		{"unknown.hcl", "job \"x\" {\n  group \"g\" {\n    cuont = 2\n  }\n}\n", []string{"job", "run"},
			[]string{" line 3:", `"cuont"`, `"count"`}},
		{"type.hcl", "job \"x\" {\n  priority = \"high\"\n}\n", []string{"job", "run"},
			[]string{" line 2:", "expected a whole number"}},
		{"syntax.hcl", "job \"x\" {\n  group \"g\" {\n", []string{"job", "validate"},
			[]string{" line 2:", "closing brace"}},
		{"binary.hcl", "\x00\xff\xfe", []string{"job", "run"}, []string{" line 1:", "UTF-8"}},
		{"empty.hcl", "", []string{"job", "run"}, []string{" line 1:", "expected"}},
		{"job.json", `{"job": {"x": {"grup": {}}}}`, []string{"job", "run"}, []string{" line 1:", `"grup"`, "expected"}},
		{"volume.hcl", "id = \"v\"\nplugin_id = \"p\"\nsize = 3\n", []string{"volume", "create"},
			[]string{" line 3:", `"size"`, "expected"}},
		{"size.hcl", "id = \"v\"\nplugin_id = \"p\"\ncapacity_min = \"1XB\"\n", []string{"volume", "create"},
			[]string{" line 3:", "1XB", "expected"}},
		{"missing.hcl", "plugin_id = \"p\"\n", []string{"volume", "register"}, []string{" line 1:", `"id"`}},
		{"meaning.hcl",
			"job \"x\" {\n  type = \"sevrice\"\n  group \"g\" {\n    task \"t\" {\n      driver = \"exec\"\n    }\n  }\n}\n",
			[]string{"job", "run"}, []string{" line 2:", "sevrice", "service, batch"}},
		{"mount.hcl",
			"job \"x\" {\n  group \"g\" {\n    task \"t\" {\n      driver = \"exec\"\n      volume_mount {\n        volume = \"nope\"\n        destination = \"/x\"\n      }\n    }\n  }\n}\n",
			[]string{"job", "run"}, []string{" line 6:", "nope"}},
		{"mode.hcl",
			"id = \"v\"\nplugin_id = \"p\"\ncapability {\n  access_mode = \"all\"\n  attachment_mode = \"file-system\"\n}\n",
			[]string{"volume", "create"}, []string{" line 4:", "single-node-writer"}},
	} {
		path := a.writeFile(c.name, c.content)
		says := c.says
		says[0] = "on " + path + says[0]
		a.mustFail(2, says, append(c.args, path)...)
	}
	a.mustFail(2, []string{"no-such.hcl"}, "job", "run", "no-such.hcl")
	if out := a.must("job", "status"); strings.Contains(out, "x ") {
		t.Errorf("something was stored:\n%s", out)
	}
}

func TestInput_ExitCodesAreTheKindOfError(t *testing.T) {
	t.Parallel()
	a := agentWithVolume(t)
	a.must("job", "run", example(t, "counter.hcl"))
	a.awaitRunning("counter", 1)

	a.mustFail(2, []string{"berth job"}, "job", "rnu", "x")
	a.mustFail(2, []string{"-h"}, "job", "run")
	a.mustFail(4, []string{`"none"`}, "job", "status", "none")
	a.mustFail(4, []string{`"none"`}, "volume", "status", "none")
	a.mustFail(5, nil, "job", "run", "-check-index", "999", example(t, "counter.hcl"))
	a.mustFail(6, []string{"claimed", a.awaitRunning("counter", 1)[0].ID}, "volume", "delete", "counter")
	a.mustFail(6, []string{"claimed"}, "volume", "deregister", "counter")
	if code := a.postStatus("/v1/system/gc", "Origin",
		"http://elsewhere.example"); code != http.StatusForbidden {
		t.Errorf("a page of another origin got %d", code)
	}
	a.mustFail(7, []string{"127.0.0.1:1"}, "job", "status", "-address", "http://127.0.0.1:1")

	// Without -dev raw_exec is off: the error says how to enable it.
	raw := a.writeJob(jobFile{
		name:   "raw",
		driver: "raw_exec",
		script: "sleep 1000",
	})
	_, err := a.run("job", "run", raw)
	if exitCode(err) != 6 {
		t.Errorf("exit code %d: %v", exitCode(err), err)
	}
	for _, text := range []string{"raw_exec", "1 node rejected by driver", "enabled = true"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("job run says %v; want %q in it", err, text)
		}
	}
	a.must("job", "stop", "-purge", "raw")

	job := decode[structs.Job](t, a.must("job", "status", "-json", "counter"))
	if job.ID != "counter" || job.Type != structs.JobService {
		t.Errorf("-json shows %+v", job)
	}
	if out := a.must("volume", "status", "-t", "{{.ID}} {{len .Claims}}",
		"counter"); strings.TrimSpace(out) != "counter 1" {
		t.Errorf("-t shows %q", out)
	}
	a.mustFail(2, []string{"Nope"}, "job", "status", "-t", "{{.Nope}}", "counter")
	stopWithVolume(a, "counter")
}

// postStatus sends an empty request with a header and returns the status.
func (a *agent) postStatus(path, header, value string) int {
	a.t.Helper()
	req, err := http.NewRequest(http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d%s", a.http, path),
		strings.NewReader("{}"))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set(header, value)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// randomBytes returns bytes that follow from the seed of the test.
func randomBytes(t *testing.T, n int) []byte {
	var seed [32]byte
	endian.LittleEndian.PutUint64(seed[:], seedOf(t))
	noise := make([]byte, n)
	_, _ = rand.NewChaCha8(seed).Read(noise)
	return noise
}

// invalidBodies returns request bodies that are invalid for every route.
func invalidBodies(t *testing.T) [][]byte {
	noise := randomBytes(t, 4096)
	return [][]byte{nil, []byte("{"), []byte("null"), []byte("[]"), []byte("[null]"), []byte(`"x"`),
		[]byte("1e999"), []byte("{}"), noise,
		[]byte(`{"Job":null}`), []byte(`{"Job":{"ID":"x","TaskGroups":[null]}}`),
		[]byte(`{"Job":{"ID":"x","Unknown":1}}`),
		[]byte(`{"Volumes":[null]}`),
		[]byte(`{"Volumes":[{"ID":"v","Topologies":[null],"RequestedCapabilities":[null]}]}`),
		[]byte(`{"Volume":{"ID":{}}}`), []byte(`{"NodeID":7,"Eligibility":[]}`),
		[]byte(strings.Repeat("[", 20000)), []byte(`{"Job":` + strings.Repeat(`{"Meta":`, 5000))}
}

func TestHTTP_RejectsGarbageOnEveryRoute(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-dev")
	a.start()
	client := &http.Client{Timeout: time.Minute}
	base := "http://127.0.0.1:" + strconv.Itoa(a.http)
	for _, r := range areas.Routes() {
		path := strings.ReplaceAll(r.Path, "{id}", "%2e%2e%2fx%00%ff")
		for _, method := range append(strings.Fields(r.Methods), "PATCH") {
			for i, body := range invalidBodies(t) {
				for _, query := range []string{"?", "?index=x&wait=-1&per_page=%00&prefix=%ff&namespace=%2e%2e"} {
					req, err := http.NewRequest(method, base+path+query, bytes.NewReader(body))
					if err != nil {
						t.Fatal(err)
					}
					resp, err := client.Do(req)
					if err != nil {
						t.Fatalf("%s %s%s, body %d: %v", method, path, query, i, err)
					}
					var text []byte
					if !r.Streams || resp.StatusCode >= 300 { // a stream may have no end
						text, _ = io.ReadAll(resp.Body)
					}
					resp.Body.Close()
					if resp.StatusCode >= 500 {
						t.Errorf("%s %s%s, body %d: %s: %s",
							method, path, query, i, resp.Status, text)
					}
				}
			}
		}
	}
	a.must("node", "status")
	if out := a.must("job", "status"); strings.Contains(out, "x ") {
		t.Errorf("something was stored:\n%s", out)
	}
}

func TestRPC_SurvivesGarbageOnThePort(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-dev")
	a.start()
	noise := randomBytes(t, 2048)
	for first := range 256 {
		conn, err := net.DialTimeout("tcp", "127.0.0.1:"+strconv.Itoa(a.rpc), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		noise[0] = byte(first)
		_, _ = conn.Write(noise)
		conn.Close()
	}
	var held []net.Conn // silent connections do not exclude others
	for range 100 {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(a.rpc)); err == nil {
			held = append(held, conn)
		}
	}
	a.must("job", "run",
		a.writeJob(jobFile{name: "after", script: "echo up; sleep 1000"}))
	a.awaitOutput(a.awaitRunning("after", 1)[0].ID, "up")
	for _, conn := range held {
		conn.Close()
	}
}

// The log ends a segment while less than another one fits. The machine is a server and a node.
func TestFullDisk_RejectsWritesUntilSpaceIsFree(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	if err := os.Mkdir(a.data(), 0o700); err != nil {
		t.Fatal(err)
	}
	// The log takes 64 MiB at once for each of its segments, and a group has 300 MB by default.
	if err := unix.Mount("tmpfs", a.data(), "tmpfs", 0, "size=512m,mode=0711"); err != nil {
		t.Fatal(err)
	}
	a.start()
	a.must("job", "run",
		a.writeJob(jobFile{name: "before", script: "echo up; sleep 1000"}))
	before := a.awaitRunning("before", 1)[0].ID

	filler := a.fillDisk(24 << 20)
	big := jobFile{node: "none", script: "# " + strings.Repeat("${local.filler}", 4)} // few jobs fill the log
	filling := fmt.Sprintf("locals {\n  filler = %q\n}\n", strings.Repeat("x", 900<<10))
	// Until the log needs more space than there is. A snapshot takes space for a moment: a write may be rejected
	// meanwhile, and not after it.
	var rejection error
	waits := false
	for i := 0; !waits && i < 200; i++ {
		big.name = "big" + strconv.Itoa(i)
		_, err := a.run("job", "run", "-detach", a.writeFile("big.hcl", filling+big.hcl()))
		if err != nil {
			rejection = cmp.Or(rejection, err)
			waits = a.healthSays("the server waits for space") == nil
		}
	}
	if rejection == nil {
		t.Fatal("a server with a full disk took everything")
	}
	t.Logf("with a full disk: %v", rejection)
	// The server that waits leads no more. A write that comes later is told that, and the health the rest.
	if !strings.Contains(rejection.Error(), "no space left") && !strings.Contains(rejection.Error(), "no leader") {
		t.Errorf("the rejection names neither the disk nor the leader: %v", rejection)
	}
	// A segment, or the end of the last write to one.
	a.awaitHealth("the server waits for space", a.data("server"), "the log needs ",
		" more, and the file system has ")
	a.awaitLogged("the disk is full, waiting for space for the log", "below "+a.data()+": ", "server/raft ")

	// An agent that is killed now starts and answers, without any free byte. The end of its last segment may
	// have the space for what it has to write.
	more := a.fillDisk(0)
	a.kill()
	a.launch()
	a.awaitHealth(`"server"`)

	if err := errors.Join(os.Remove(filler), os.Remove(more)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server accepts writes again", func() error {
		_, err := a.run("job", "run", "-detach",
			a.writeJob(jobFile{name: "late", script: "sleep 1000"}))
		return err
	})
	a.awaitReady()
	if now := a.awaitRunning("before", 1)[0].ID; now != before {
		t.Errorf("the allocation %s was replaced by %s", before, now)
	}
	a.stop()
	a.start()
	for _, job := range []string{"before", "big0", "late"} {
		a.must("job", "inspect", job)
	}
	a.must("job", "run", "-detach",
		a.writeJob(jobFile{name: "later", script: "sleep 1000"}))
}

// fillDisk leaves some bytes free on the disk of the agent, and returns the file that has the others.
func (a *agent) fillDisk(left uint64) (filler string) {
	a.t.Helper()
	f, err := os.CreateTemp(a.data(), "filler")
	if err != nil {
		a.t.Fatal(err)
	}
	var st unix.Statfs_t
	for chunk := make([]byte, 4096); err == nil; {
		_ = unix.Fstatfs(int(f.Fd()), &st)
		if st.Bfree*uint64(st.Bsize) <= left {
			break
		}
		_, err = f.Write(chunk)
	}
	_ = f.Close()
	if err != nil && !errors.Is(err, unix.ENOSPC) {
		a.t.Fatal(err)
	}
	return f.Name()
}

// awaitHealth waits until the agent is not healthy, and says some words.
func (a *agent) awaitHealth(words ...string) {
	a.t.Helper()
	eventually(a.t, "the health says "+words[0], func() error { return a.healthSays(words...) })
}

// healthSays returns an error if the health lacks a word.
func (a *agent) healthSays(words ...string) error {
	resp, err := http.Get("http://127.0.0.1:" + strconv.Itoa(a.http) + "/v1/agent/health")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	for _, w := range words {
		if err == nil && !bytes.Contains(body, []byte(w)) {
			err = fmt.Errorf("%q is not in %s", w, body)
		}
	}
	return err
}

// awaitLogged waits until a line of the log has some words.
func (a *agent) awaitLogged(words ...string) {
	a.t.Helper()
	eventually(a.t, "the log says "+words[0], func() error {
		log, err := os.ReadFile(a.log.Name())
		if err != nil {
			return err
		}
		for line := range bytes.Lines(log) {
			if !slices.ContainsFunc(words, func(w string) bool { return !bytes.Contains(line, []byte(w)) }) {
				return nil
			}
		}
		return fmt.Errorf("no line has %q", words)
	})
}

// A server starts for the first time on a disk without space for its log, and begins when there is space.
func TestFullDisk_AFirstStartWaits(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server")
	a.ready = (*agent).hasLeader
	if err := os.Mkdir(a.data(), 0o700); err != nil {
		t.Fatal(err)
	}
	mount := func(flags uintptr, size string) {
		t.Helper()
		if err := unix.Mount("tmpfs", a.data(), "tmpfs", flags, "size="+size+",mode=0700"); err != nil {
			t.Fatal(err)
		}
	}
	mount(0, "1m")
	a.launch()
	a.awaitHealth("the server waits for space", a.data("server"), "the log needs 64 MiB more")
	mount(unix.MS_REMOUNT, "160m")
	a.awaitReady()
}
