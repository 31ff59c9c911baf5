package artifact

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/structs"
	"berth/test/kit"
)

func withDest(dest string) func(*structs.TaskArtifact) {
	return func(a *structs.TaskArtifact) { a.RelativeDest = dest }
}

func withMode(mode string) func(*structs.TaskArtifact) {
	return func(a *structs.TaskArtifact) { a.GetterMode = mode }
}

func withOption(key, value string) func(*structs.TaskArtifact) {
	return func(a *structs.TaskArtifact) { a.GetterOptions = map[string]string{key: value} }
}

func sha256Of(content string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content)))
}

func TestNew_IsNilWithoutArtifacts(t *testing.T) {
	if New(Config{}, &hooks.AllocEnv{}, &structs.Task{Name: "web"}) != nil {
		t.Error("a task without artifacts has a hook for them")
	}
}

func TestUp_PutsFilesInPlace(t *testing.T) {
	files := map[string][]byte{
		"hello.txt": []byte("hello"),
		"a.tar":     tarOf(t, entry{name: "d/x", body: []byte("1"), kind: tar.TypeReg}),
		"a.zip":     zipOf(t, entry{name: "d/x", body: []byte("2")}, entry{name: "y", body: []byte("3")}),
		"x.gz":      gzipOf(t, []byte("4")),
		"sums":      []byte(sha256Of("hello")[len("sha256:"):] + "  hello.txt\n"),
	}
	files["a.tgz"] = gzipOf(t, files["a.tar"])
	for _, c := range []struct {
		name     string
		artifact *structs.TaskArtifact
		want     map[string]string
	}{
		{"any file", artifact("${URL}/hello.txt"), map[string]string{"web/local/hello.txt": "hello"}},
		{"file", artifact("${URL}/hello.txt", withMode("file"), withDest("local/a/b")),
			map[string]string{"web/local/a/b": "hello"}},
		{"secrets", artifact("${URL}/hello.txt", withDest("secrets")),
			map[string]string{"web/secrets/hello.txt": "hello"}},
		{"shared directory by its variable", artifact("${URL}/hello.txt", withDest("${NOMAD_ALLOC_DIR}/data")),
			map[string]string{"alloc/data/hello.txt": "hello"}},
		{"shared directory by its path", artifact("${URL}/hello.txt", withMode("file"), withDest("../alloc/h")),
			map[string]string{"alloc/h": "hello"}},
		{"tar", artifact("${URL}/a.tar"), map[string]string{"web/local/d/x": "1"}},
		{"tgz", artifact("${URL}/a.tgz", withDest("local/t")), map[string]string{"web/local/t/d/x": "1"}},
		{"zip", artifact("${URL}/a.zip", withDest("/local/z")),
			map[string]string{"web/local/z/d/x": "2", "web/local/z/y": "3"}},
		{"part of an archive", artifact("${URL}/a.zip//d"), map[string]string{"web/local/x": "2"}},
		{"archive that stays", artifact("${URL}/a.zip", withOption("archive", "false")),
			map[string]string{"web/local/a.zip": string(files["a.zip"])}},
		{"gz", artifact("${URL}/x.gz", withMode("file"), withDest("local/x")),
			map[string]string{"web/local/x": "4"}},
		{"checksum", artifact("${URL}/hello.txt", withOption("checksum", sha256Of("hello"))),
			map[string]string{"web/local/hello.txt": "hello"}},
		{"list of checksums", artifact("${URL}/hello.txt", withOption("checksum", "file:${URL}/sums")),
			map[string]string{"web/local/hello.txt": "hello"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			for name, content := range files {
				f.file(name, content)
			}
			f.mustUp(c.artifact)
			got := f.tree()
			maps.DeleteFunc(got, func(name, _ string) bool { return strings.HasSuffix(name, "/") })
			if !maps.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestUp_KeepsOtherFilesOfTheDestination(t *testing.T) {
	f := newFixture(t)
	f.file("a.tar", tarOf(t,
		entry{name: "d/new", body: []byte("new"), kind: tar.TypeReg},
		entry{name: "d/changed", body: []byte("new"), kind: tar.TypeReg}))
	local := filepath.Join(f.env.Dir, "web/local")
	for _, name := range []string{"d/old", "d/changed"} {
		if err := os.MkdirAll(filepath.Join(local, "d"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(local, name), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.mustUp(artifact("${URL}/a.tar"))
	got := f.tree()
	want := map[string]string{"web/local/d/old": "old", "web/local/d/new": "new", "web/local/d/changed": "new"}
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%s has %q, want %q", name, got[name], content)
		}
	}
}

// The secrets of a task are in another file system than its other files.
func TestUp_PutsFilesIntoTheMemoryOfSecrets(t *testing.T) {
	f := newFixture(t)
	secrets := f.mountSecrets()
	f.file("large", make([]byte, 2<<20))
	f.file("a.tar", tarOf(t,
		entry{name: "d/new", body: []byte("new"), kind: tar.TypeReg}))
	f.env.Config.User = "1234"
	a := artifact("${URL}/a.tar", withDest("secrets"))
	a.Chown = true
	into := artifact("${URL}/a.tar", withDest("secrets/t/x"))
	f.mustUp(a, into)
	if err := os.WriteFile(filepath.Join(secrets, "d/old"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(secrets, "d/new"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.mustUp(a)
	want := map[string]string{
		"web/secrets/d/new":     "new",
		"web/secrets/d/old":     "old",
		"web/secrets/t/x/d/new": "new",
		"web/local/":            "",
		"alloc/data/":           "",
	}
	if got := f.tree(); !maps.Equal(got, want) {
		t.Errorf("the files are %q, want %q", got, want)
	}
	for name, owner := range map[string]uint32{"d": 1234, "d/new": 1234, "t/x/d/new": 0} {
		info, err := os.Lstat(filepath.Join(secrets, name))
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != owner || st.Gid != owner {
			t.Errorf("%s is of %d:%d, want %d", name, st.Uid, st.Gid, owner)
		}
	}
	err := f.up(t.Context(), artifact("${URL}/large", withDest("secrets")))
	if err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("more than there is capacity for: %v", err)
	}
	if got := f.tree(); !maps.Equal(got, want) {
		t.Errorf("afterwards the files are %q, want %q", got, want)
	}
}

func TestUp_PutsFilesWithTheLongestNamesIntoSecrets(t *testing.T) {
	f := newFixture(t)
	f.mountSecrets()
	name := strings.Repeat("n", 255)
	f.file("a.tar", tarOf(t, entry{name: name, body: []byte("new"), kind: tar.TypeReg}))
	f.mustUp(artifact("${URL}/a.tar", withDest("secrets")))
	if got := f.tree()["web/secrets/"+name]; got != "new" {
		t.Errorf("the file has %q", got)
	}
}

func TestUp_SendsHeaders(t *testing.T) {
	f := newFixture(t)
	f.file("x", []byte("x"))
	a := artifact("${URL}/x")
	a.GetterHeaders = map[string]string{"X-Token": "${URL}"}
	f.mustUp(a)
	if got := f.requests[0].Header.Get("X-Token"); got != f.server.URL {
		t.Errorf("the server got the header %q", got)
	}
}

func TestUp_SetsOwnerAndMode(t *testing.T) {
	for _, c := range []struct {
		chown bool
		want  uint32
	}{{false, 0}, {true, 1234}} {
		f := newFixture(t)
		f.file("a.tar", tarOf(t, entry{name: "d/x", body: []byte("1"), kind: tar.TypeReg}))
		f.env.Config.User = "1234"
		a := artifact("${URL}/a.tar", withDest("local/t"))
		a.Chown = c.chown
		f.mustUp(a)
		for _, name := range []string{"web/local/t", "web/local/t/d", "web/local/t/d/x"} {
			info, err := os.Stat(filepath.Join(f.env.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			st := info.Sys().(*syscall.Stat_t)
			if st.Uid != c.want || st.Gid != c.want || info.Mode().Perm() != 0o755 {
				t.Errorf("chown %t: %s is of %d:%d with mode %o", c.chown, name, st.Uid, st.Gid, info.Mode())
			}
		}
	}
}

func TestUp_ReportsEvents(t *testing.T) {
	f := newFixture(t)
	f.file("x", []byte("x"))
	f.mustUp(artifact("${URL}/x"))
	var got []string
	for _, e := range f.events {
		message, _, _ := strings.Cut(e.Message, ", after")
		got = append(got, e.Type+": "+message)
	}
	want := []string{
		"Downloading Artifacts: Client is downloading artifacts (1)",
		"Downloading Artifacts: Artifacts are complete: 1 B in 1 files",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A long download reports its size as an event of the task.
func TestUp_ReportsProgress(t *testing.T) {
	usual := progressInterval
	progressInterval = 0
	defer func() { progressInterval = usual }()
	f := newFixture(t)
	reported := make(chan *structs.TaskEvent, 100)
	f.env.Emit = func(e *structs.TaskEvent) {
		if e.Details[hooks.ProgressKey] != "" && strings.Contains(e.Message, "256 KiB") {
			reported <- e
		}
	}
	var got *structs.TaskEvent
	f.mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(make([]byte, 256<<10))
		w.(http.Flusher).Flush()
		select {
		case got = <-reported:
		case <-r.Context().Done():
		case <-time.After(patience):
		}
	})
	f.mustUp(artifact("${URL}/slow"))
	want := &structs.TaskEvent{
		Type:    structs.TaskEventDownloading,
		Message: "Client is downloading artifact 1, " + shownSource(f.server.URL+"/slow") + ": 256 KiB so far",
		Details: map[string]string{hooks.ProgressKey: "artifact 1"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A task that has run has its files. After a failure only the missing ones are downloaded.
func TestUp_DownloadsOnce(t *testing.T) {
	f := newFixture(t)
	f.file("x", []byte("x"))
	f.env.Task.Artifacts = []*structs.TaskArtifact{artifact("${URL}/x"), artifact("${URL}/later")}
	h := New(f.cfg, f.env.AllocEnv, f.env.Task)
	if err := h.Up(t.Context(), f.env); err == nil {
		t.Fatal("a missing file was downloaded")
	}
	f.file("later", []byte("y"))
	if err := h.Up(t.Context(), f.env); err != nil {
		t.Fatal(err)
	}
	f.env.FirstStart = false
	if err := New(f.cfg, f.env.AllocEnv, f.env.Task).Up(t.Context(), f.env); err != nil {
		t.Fatal(err)
	}
	f.env.FirstStart = true
	f.env.Running = true
	if err := New(f.cfg, f.env.AllocEnv, f.env.Task).Up(t.Context(), f.env); err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, r := range f.requests {
		paths = append(paths, r.URL.Path)
	}
	if want := []string{"/x", "/later", "/later"}; !slices.Equal(paths, want) {
		t.Errorf("the server was asked for %q, want %q", paths, want)
	}
}

func TestUp_ClonesRepositories(t *testing.T) {
	f := newFixture(t)
	if _, err := exec.LookPath("git"); err != nil {
		kit.SkipLacking(t, "git")
	}
	repo := t.TempDir()
	script := `git init -q -b main w && cd w && echo hello >x && ln -s x link && git add . &&
		git -c user.name=a -c user.email=a@example.com commit -q -m 1 && git tag v1 &&
		git rm -q x && git -c user.name=a -c user.email=a@example.com commit -q -m 2 &&
		cd .. && git clone -q --bare w w.git && git -C w.git update-server-info`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = repo
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f.mux.Handle("/", http.FileServer(http.Dir(repo)))
	f.mountSecrets()
	for _, dest := range []string{"local", "secrets"} {
		f.mustUp(artifact("git::${URL}/w.git", withOption("ref", "v1"), withDest(dest+"/repo")))
		got := f.tree()
		if got["web/"+dest+"/repo/x"] != "hello\n" || got["web/"+dest+"/repo/link"] != "x" {
			t.Errorf("got %q", slices.Sorted(maps.Keys(got)))
		}
	}
}

func TestUp_ReadsFilesThatTheAgentNames(t *testing.T) {
	f := newFixture(t)
	dir := filepath.Join(filepath.Dir(f.env.Dir), "pub")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := f.up(t.Context(), artifact("file://"+dir+"/x"))
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("got %v, want denied", err)
	}
	f.checkSourceDenied("file://" + dir + "/../../etc/passwd")
	f.cfg.Settings.FilesystemIsolationExtraPaths = []string{"d:r:" + dir}
	f.checkSourceDenied("file://" + dir + "/../../etc/passwd")
	f.checkSourceDenied("/etc/passwd")
	f.mustUp(artifact("file://"+dir+"/x"), artifact("file://"+dir, withDest("local/all")))
	got := f.tree()
	if got["web/local/x"] != "x" || got["web/local/all/x"] != "x" {
		t.Errorf("got %q", got)
	}
}

func (f *fixture) checkSourceDenied(source string) {
	f.t.Helper()
	err := f.up(f.t.Context(), artifact(source))
	if !structs.IsKind(err, structs.KindDenied) {
		f.t.Errorf("%s: got %v, want denied", source, err)
	}
}

func TestDown_RemovesTheRemainsOfAKilledAgent(t *testing.T) {
	f := newFixture(t)
	f.env.Task.Artifacts = []*structs.TaskArtifact{artifact("${URL}/x")}
	h := New(f.cfg, f.env.AllocEnv, f.env.Task)
	for _, dir := range []string{"web", "alloc"} {
		_, err := newScratch(place{dir: filepath.Join(f.env.Dir, dir)}, "web")
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := h.Down(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f.checkUntouched()
	if err := os.RemoveAll(f.env.Dir); err != nil {
		t.Fatal(err)
	}
	if err := h.Down(t.Context()); err != nil {
		t.Errorf("without the directories: %v", err)
	}
}

func TestPlaceOf_StaysInTheAllocation(t *testing.T) {
	a := &artifacts{taskDir: "/data/a/web", shared: "/data/a/alloc"}
	host := driver.Dirs{AllocShared: "/data/a/alloc", Local: "/data/a/web/local", Secrets: "/data/a/web/secrets"}
	for _, c := range []struct {
		dest string
		seen driver.Dirs
		want place
	}{
		{"local/", driver.Inside, place{"/data/a/web", "local"}},
		{"x/../local/y", driver.Inside, place{"/data/a/web", "local/y"}},
		{"/local/y", driver.Inside, place{"/data/a/web", "local/y"}},
		{"/secrets", driver.Inside, place{"/data/a/web", "secrets"}},
		{"/alloc", driver.Inside, place{"/data/a/alloc", "."}},
		{"/alloc/data/x", driver.Inside, place{"/data/a/alloc", "data/x"}},
		{"../alloc/x", driver.Inside, place{"/data/a/alloc", "x"}},
		{"/data/a/alloc/x", host, place{"/data/a/alloc", "x"}},
		{"/data/a/web/local/x", host, place{"/data/a/web", "local/x"}},
		{"/etc/passwd", driver.Inside, place{"/data/a/web", "etc/passwd"}},
		{"/", driver.Inside, place{"/data/a/web", "."}},
		{"..", driver.Inside, place{}},
		{"../other/local", driver.Inside, place{}},
		{"/../other", driver.Inside, place{}},
		{"../alloc/../other", driver.Inside, place{}},
		{"/alloc/../../x", driver.Inside, place{}},
		{"local/../../../x", driver.Inside, place{}},
		{"../allocs", driver.Inside, place{}},
	} {
		got, err := a.placeOf(c.dest, c.seen)
		if got != c.want || (c.want == place{}) != structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%q: got %+v and %v, want %+v", c.dest, got, err, c.want)
		}
	}
}

func TestHeaders_AreOneLine(t *testing.T) {
	f := newFixture(t)
	a := artifact("${URL}/x")
	a.GetterHeaders = map[string]string{"X": "a\r\nY: b"}
	err := f.up(t.Context(), a)
	if !structs.IsKind(err, structs.KindInvalid) || len(f.requests) > 0 {
		t.Errorf("got %v after %d requests", err, len(f.requests))
	}
}

func TestErrors_DoNotShowOptions(t *testing.T) {
	f := newFixture(t)
	var log bytes.Buffer
	for _, source := range []string{
		"${URL}/x?token=hidden",
		"http://u:hidden@127.0.0.1:1/x?token=hidden%2f&x=1",
		"git::http://u:hidden@127.0.0.1:1/x?token=hidden",
		"git::http://hidden@127.0.0.1:1/x",
		"http://hidden:x@127.0.0.1:1/x",
		"https://u:hidden%@127.0.0.1:1/x",
	} {
		err := f.up(t.Context(), artifact(source, withOption("password", "hidden")))
		fmt.Fprintln(&log, err)
	}
	if strings.Contains(log.String(), "hidden") || !strings.Contains(log.String(), "127.0.0.1") {
		t.Errorf("the errors are: %s", &log)
	}
}
