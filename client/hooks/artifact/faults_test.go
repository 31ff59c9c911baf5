package artifact

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/cgroups"
	"berth/client/hooks"
	"berth/client/hooks/artifact/download"
	"berth/structs"
	"berth/test/kit"
)

// patience bounds each wait of a test.
const patience = time.Minute

// zeros compress well.
var zeros = bytes.Repeat([]byte{0}, 1<<20)

func manyEntries(n int) []entry {
	list := make([]entry, n)
	for i := range list {
		list[i] = entry{name: fmt.Sprintf("f%d", i), kind: tar.TypeReg}
	}
	return list
}

func TestUp_RejectsBadDownloads(t *testing.T) {
	up := entry{name: "../../../x", body: []byte("x"), kind: tar.TypeReg}
	link := entry{name: "l", kind: tar.TypeSymlink, link: "/etc"}
	bomb := entry{name: "zeros", body: zeros, kind: tar.TypeReg}
	files := map[string][]byte{
		"plain":    []byte("plain"),
		"large":    zeros,
		"bomb.zip": zipOf(t, bomb),
		"bomb.tgz": gzipOf(t, tarOf(t, bomb)),
		"bomb.gz":  gzipOf(t, zeros),
		"many.zip": zipOf(t, manyEntries(33)...),
		"many.tar": tarOf(t, manyEntries(33)...),
		"up.zip":   zipOf(t, up),
		"up.tar":   tarOf(t, up),
		"link.zip": zipOf(t, link),
		"link.tar": tarOf(t, link, entry{name: "l/x", kind: tar.TypeReg}),
		"hard.tar": tarOf(t, entry{name: "h", kind: tar.TypeLink, link: "/etc/passwd"}),
		"pipe.tar": tarOf(t, entry{name: "p", kind: tar.TypeFifo}),
		"bad.zip":  []byte("this is no archive"),
	}
	for _, c := range []struct {
		artifact *structs.TaskArtifact
		want     string
		kind     structs.Kind
	}{
		{artifact("${URL}/plain", withOption("checksum", sha256Of("other"))), "Checksums did not match",
			structs.KindUnavailable},
		{artifact("${URL}/plain", withOption("checksum", "md5:00")), "checksum", structs.KindInvalid},
		{artifact("${URL}/large"), "http_max_size", structs.KindPrecondition},
		{artifact("${URL}/stream"), "http_max_size", structs.KindPrecondition},
		{artifact("${URL}/missing"), "404", structs.KindUnavailable},
		{artifact("${URL}/dir/"), "bad response", structs.KindUnavailable},
		{artifact("${URL}/real/"), "nothing was downloaded", structs.KindUnavailable},
		{artifact("http://127.0.0.1:1/x"), "connection refused", structs.KindUnavailable},
		{artifact("${URL}/bomb.zip"), "decompression_size_limit", structs.KindPrecondition},
		{artifact("${URL}/bomb.tgz"), "decompression_size_limit", structs.KindPrecondition},
		{artifact("${URL}/bomb.gz", withMode("file"), withDest("local/x")), "decompression_size_limit",
			structs.KindPrecondition},
		{artifact("${URL}/many.zip"), "decompression_file_count_limit", structs.KindPrecondition},
		{artifact("${URL}/many.tar"), "decompression_file_count_limit", structs.KindPrecondition},
		{artifact("${URL}/up.zip"), "'..'", structs.KindUnavailable},
		{artifact("${URL}/up.tar"), "'..'", structs.KindUnavailable},
		{artifact("${URL}/link.zip"), "neither a file nor a directory", structs.KindUnavailable},
		{artifact("${URL}/link.tar"), "neither a file nor a directory", structs.KindUnavailable},
		{artifact("${URL}/hard.tar"), "neither a file nor a directory", structs.KindUnavailable},
		{artifact("${URL}/pipe.tar"), "neither a file nor a directory", structs.KindUnavailable},
		{artifact("${URL}/bad.zip"), "reading the archive", structs.KindUnavailable},
		{artifact("${URL}/plain", withMode("file")), "moving the files", structs.KindPrecondition},
		{artifact("${URL}/plain", withDest("local/${UP}/x")), "destination", structs.KindInvalid},
		{artifact("${URL}/${NOMAD_META_none}"), "source: the placeholder ${NOMAD_META_none} has no value",
			structs.KindInvalid},
		{artifact("git::https://x/r", withOption("ref", "${none}")), "the placeholder ${none} has no value",
			structs.KindInvalid},
		{artifact("git::https://x/r?ref=${none}"), "the placeholder ${none} has no value",
			structs.KindInvalid},
		{artifact("git::https://x/r", withOption("ref", "${DASH}x")), "ref must be", structs.KindInvalid},
		{artifact("git::https://x/r?ref=${DASH}x"), "ref must be", structs.KindInvalid},
		{artifact("git::https://x/r//${DASH}x"), "subdirectory must not", structs.KindInvalid},
		{artifact("git::https://x/r", withOption("${none}", "x")), "the placeholder ${none} has no value",
			structs.KindInvalid},
		{artifact("${URL}/plain", withDest("local/${none}")), "destination: the placeholder ${none}",
			structs.KindInvalid},
		{artifact("${URL}/plain", withDest("local/${")), "destination: the placeholder ${ has no value",
			structs.KindInvalid},
		{artifact("s3::https://example.com/x"), "storage service s3", structs.KindInvalid},
	} {
		t.Run(strings.ReplaceAll(c.artifact.GetterSource, "/", "_"), func(t *testing.T) {
			f := newFixture(t)
			for name, content := range files {
				f.file(name, content)
			}
			f.file("real/", nil)
			f.mux.HandleFunc("/stream", func(w http.ResponseWriter, _ *http.Request) {
				for range 1 << 10 { // in chunks: without a length
					_, _ = w.Write(zeros[:1<<12])
				}
			})
			f.cfg.Settings.HTTPMaxSize = 1 << 19
			f.cfg.Settings.DecompressionSizeLimit = 1 << 18
			f.cfg.Settings.DecompressionFileCountLimit = 32
			err := f.up(t.Context(), c.artifact)
			if err == nil || !strings.Contains(err.Error(), c.want) || !structs.IsKind(err, c.kind) {
				t.Errorf("got %v, want %q of kind %s", err, c.want, c.kind)
			}
			failure, ok := errors.AsType[*hooks.Failure](err)
			if !ok || failure.Event != structs.TaskEventDownloadFailed {
				t.Fatalf("the failure has no event of its own: %#v", err)
			}
			bounded := strings.Contains(c.want, "_size") || strings.Contains(c.want, "_limit")
			if failure.Final != bounded {
				t.Errorf("final is %t, want %t", failure.Final, bounded)
			}
			f.checkUntouched()
		})
	}
}

// slowly answers without end. It counts the answers that have begun and ended.
func slowly(begun, ended chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("x"))
		w.(http.Flusher).Flush()
		begun <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
	}
}

func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("no %s in time", what)
	}
}

func TestUp_EndsSlowDownloads(t *testing.T) {
	f := newFixture(t)
	begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	f.mux.HandleFunc("/slow", slowly(begun, ended))
	f.cfg.Settings.HTTPReadTimeout = time.Second
	err := f.up(t.Context(), artifact("${URL}/slow"))
	if err == nil || !strings.Contains(err.Error(), "1s") {
		t.Errorf("got %v", err)
	}
	if len(begun) > 0 { // the time of a slow machine is over before
		await(t, ended, "end of the request")
	}
	f.checkUntouched()
}

func TestUp_EndsWithTheAgent(t *testing.T) {
	f := newFixture(t)
	begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	f.mux.HandleFunc("/slow", slowly(begun, ended))
	ctx, stop := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- f.up(ctx, artifact("${URL}/slow")) }()
	await(t, begun, "request")
	stop()
	await(t, ended, "end of the request")
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	f.checkUntouched()
}

func TestUp_WaitsForOtherDownloads(t *testing.T) {
	f := newFixture(t)
	f.file("x", []byte("x"))
	if !f.cfg.Slots.running.TryAcquire(1) {
		t.Fatal("there is no slot")
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	err := f.up(ctx, artifact("${URL}/x"))
	if !errors.Is(err, context.DeadlineExceeded) || len(f.requests) > 0 {
		t.Errorf("got %v after %d requests", err, len(f.requests))
	}
	f.checkUntouched()
	source := shownSource(f.server.URL + "/x")
	const why = ": 1 other downloads run on this node, and no more at a time"
	if want := "task web waits to download " + source + why; f.progress[0] != want || f.progress[1] != "" {
		t.Errorf("the progress is %q, want %q", f.progress, want)
	}
	last := f.events[len(f.events)-1]
	want := "Client waits to download artifact 1, " + source + why
	if last.Message != want || last.Details[hooks.ProgressKey] == "" {
		t.Errorf("the event is %+v", last)
	}
	f.cfg.Slots.running.Release(1)
	f.mustUp(artifact("${URL}/x"), artifact("${URL}/x"))
}

// A silent server keeps no other download of the node waiting for long.
func TestUp_EndsSilentDownloads(t *testing.T) {
	before := maxSilence
	maxSilence = time.Second
	t.Cleanup(func() { maxSilence = before })
	f := newFixture(t)
	f.limitTime()
	silent, reached := listenAt(t, "127.0.0.1")
	conns := make(chan net.Conn, 10)
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			conns <- conn
		}
	}()
	begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	f.mux.HandleFunc("/slow", slowly(begun, ended))
	address := silent.Addr().String()
	for _, source := range []string{
		"${URL}/slow",
		"http://" + address + "/x",
		"git::http://" + address + "/r.git",
		"git::https://" + address + "/r.git",
		"git::git://" + address + "/r.git",
	} {
		err := f.up(t.Context(), artifact(source))
		if err == nil || !strings.Contains(err.Error(), "has sent nothing for 1s") {
			t.Errorf("%s: got %v", source, err)
		}
	}
	await(t, ended, "end of the request")
	if reached.Load() < 4 {
		t.Errorf("the silent server had %d connections", reached.Load())
	}
	_ = silent.Close()
	<-accepted
	close(conns)
	for conn := range conns {
		_ = conn.Close()
	}
	f.checkUntouched()
}

// agentMain downloads into a directory until it is killed.
func agentMain(dir, url string) {
	env := newEnv(filepath.Join(dir, "alloc"), url)
	env.Task.Artifacts = []*structs.TaskArtifact{artifact("${URL}/slow")}
	cfg := Config{
		Settings: localSettings(),
		Dir:      filepath.Join(dir, "root"),
		Command:  []string{kit.PlainProgram(), "executor"},
		Progress: func(_, _ string) {},
		Slots:    NewSlots(1),
		MinFree:  func() int64 { return 0 },
		Groups:   &Groups{Machine: cgroups.Detect(), Logger: hclog.NewNullLogger()},
	}
	_ = New(cfg, env.AllocEnv, env.Task).Up(context.Background(), env)
}

// The next agent downloads again, and finds the remains of the killed one.
func TestDownload_EndsWithAKilledAgent(t *testing.T) {
	f := newFixture(t)
	begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	f.mux.HandleFunc("/slow", slowly(begun, ended))
	agent := exec.Command(kit.PlainProgram(), "agent", filepath.Dir(f.env.Dir), f.server.URL)
	agent.Stderr = os.Stderr
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = agent.Process.Kill() }()
	await(t, begun, "request")
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	await(t, ended, "end of the request")
	f.file("x", []byte("x"))
	f.mustUp(artifact("${URL}/x"))
	if got := f.tree(); got["web/local/x"] != "x" || len(got) != 3 {
		t.Errorf("got %q", got)
	}
}

// A repository has no bounds of its own: the agent watches the directory.
func TestWatch_EndsLargeDownloads(t *testing.T) {
	f := newFixture(t)
	f.mux.HandleFunc("/large", func(w http.ResponseWriter, r *http.Request) {
		for range 2 {
			_, _ = w.Write(zeros)
		}
		<-r.Context().Done()
	})
	a := &artifacts{cfg: f.cfg, task: "web"}
	a.cfg.Settings.HTTPMaxSize = 1 << 40
	s, err := newScratch(place{dir: filepath.Join(f.env.Dir, "web")}, "web")
	if err != nil {
		t.Fatal(err)
	}
	defer s.remove()
	if err := os.Mkdir(f.cfg.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	unbounded := download.Bound{Bytes: 1 << 40}
	req, _, err := a.request(artifact(f.server.URL+"/large"), unbounded, unbounded)
	if err != nil {
		t.Fatal(err)
	}
	timed, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	ctx, end := context.WithCancelCause(timed)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		a.watch(ctx, end, watch{scratch: s, most: bounds{download.Bound{Bytes: 1 << 20}, 100}})
	}()
	err = a.runProcess(ctx, s, req, &cgroups.Group{})
	end(nil)
	<-watched
	if err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("got %v", err)
	}
}

// doing is an artifact whose process misbehaves.
func doing(do, with string) *structs.TaskArtifact {
	a := artifact("http://127.0.0.1/x", withDest("local/got"))
	a.GetterHeaders = map[string]string{"Do": do, "With": with}
	return a
}

func TestSandbox_HoldsAHostileProcess(t *testing.T) {
	for _, c := range []struct {
		do, with string
		want     string // of the error
	}{
		{"read", "/etc/shadow", "no such file"},
		{"read", "ALLOC/web/secrets/token", "no such file"},
		{"write", "/artifact/tmp/x", ""},
		{"write", "/x", "read-only"},
		{"write", "/usr/x", "read-only"},
		{"write", "/berth", "text file busy|read-only|permission denied"},
		{"write", "/etc/hosts", "read-only|permission denied"},
		{"mount", "", "operation not permitted"},
		{"become root", "", "operation not permitted"},
		{"link", "/etc/passwd", "leads out"},
		{"link", "../../web/secrets/token", "leads out"},
		{"link", "../tmp", "leads out"},
		{"link", "y/z", ""},
		{"pipe", "", "neither a file nor a directory"},
		{"nest", "", "within one another"},
	} {
		t.Run(c.do+" "+strings.ReplaceAll(c.with, "/", "_"), func(t *testing.T) {
			f := newFixture(t)
			f.cfg.Command = []string{kit.PlainProgram(), hostile}
			token := filepath.Join(f.env.Dir, "web/secrets/token")
			if err := os.WriteFile(token, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			err := f.up(t.Context(), doing(c.do, strings.ReplaceAll(c.with, "ALLOC", f.env.Dir)))
			ok := err == nil && c.want == ""
			for part := range strings.SplitSeq(c.want, "|") {
				ok = ok || err != nil && c.want != "" && strings.Contains(err.Error(), part)
			}
			if !ok {
				t.Errorf("got %v, want %q", err, c.want)
			}
			_, err = os.Lstat(filepath.Join(f.env.Dir, "web/local/got"))
			if (err == nil) != (c.want == "") {
				t.Errorf("the destination: %v", err)
			}
		})
	}
}

func TestSandbox_ShowsNothingOfTheAllocation(t *testing.T) {
	f := newFixture(t)
	f.cfg.Command = []string{kit.PlainProgram(), hostile}
	f.mustUp(doing("list", "/"))
	for _, name := range []string{"alloc", "local", "secrets", "data", "tmp", "boot"} {
		_, err := os.Lstat(filepath.Join(f.env.Dir, "web/local/got", name))
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the process sees /%s", name)
		}
	}
	if _, err := os.Lstat(filepath.Join(f.env.Dir, "web/local/got/usr")); err != nil {
		t.Errorf("the list is not complete: %v", err)
	}
}

func TestDeliver_DropsPrivilegesOfFiles(t *testing.T) {
	f := newFixture(t)
	f.cfg.Command = []string{kit.PlainProgram(), hostile}
	f.mustUp(doing("set-uid", ""))
	info, err := os.Stat(filepath.Join(f.env.Dir, "web/local/got/x"))
	if err != nil || info.Mode() != 0o755 {
		t.Errorf("got mode %v and %v", info.Mode(), err)
	}
}

// A task of the allocation may have put a link in the place of the destination.
func TestDeliver_FollowsNoLinkOut(t *testing.T) {
	for _, mode := range []string{"any", "file"} {
		f := newFixture(t)
		f.file("x", []byte("x"))
		outside := t.TempDir()
		if err := os.Symlink(outside, filepath.Join(f.env.Dir, "web/local/l")); err != nil {
			t.Fatal(err)
		}
		err := f.up(t.Context(), artifact("${URL}/x", withMode(mode), withDest("local/l/y")))
		if err == nil {
			t.Errorf("mode %s: it was delivered through a link", mode)
		}
		entries, err := os.ReadDir(outside)
		if err != nil || len(entries) > 0 {
			t.Errorf("mode %s: outside is %v and %v", mode, entries, err)
		}
	}
}
