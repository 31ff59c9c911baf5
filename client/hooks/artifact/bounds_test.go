package artifact

import (
	"archive/tar"
	"bytes"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"berth/client/hooks/artifact/download"
	"berth/structs"
)

// withDisk gives the group of the fixture an ephemeral_disk of a size in MiB.
func (f *fixture) withDisk(size int) {
	f.env.AllocEnv.Group = &structs.TaskGroup{EphemeralDisk: &structs.EphemeralDisk{SizeMB: size}}
}

// checkBound checks the error of an artifact that a later download of it exceeds too.
func (f *fixture) checkBound(err error, want string) {
	f.t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || !structs.IsKind(err, structs.KindPrecondition) {
		f.t.Errorf("got %v, want %q", err, want)
	}
	if !isFinal(err) {
		f.t.Errorf("the node downloads it again after %v", err)
	}
}

// checkFull checks the error of an artifact for which the node has no space at present.
func (f *fixture) checkFull(err error, want string) {
	f.t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || !structs.IsKind(err, structs.KindUnavailable) ||
		isFinal(err) {
		f.t.Errorf("got %v, want %q", err, want)
	}
}

// early is the error of a download that ends before all of it is there.
const early = " has more than 1048576 bytes "

func TestUp_BoundsDownloadsByTheEphemeralDisk(t *testing.T) {
	large := bytes.Repeat(zeros, 2)
	bomb := entry{name: "zeros", body: large, kind: tar.TypeReg}
	files := map[string][]byte{
		"large":    large,
		"bomb.zip": zipOf(t, bomb),
		"bomb.tgz": gzipOf(t, tarOf(t, bomb)),
		"bomb.gz":  gzipOf(t, large),
	}
	for name, content := range files {
		f := newFixture(t)
		f.file(name, content)
		a := artifact("${URL}/" + name)
		if name == "bomb.gz" {
			a = artifact("${URL}/"+name, withMode("file"), withDest("local/x"))
		}
		f.withDisk(1)
		f.checkBound(f.up(t.Context(), a), early)
		f.checkUntouched()
		f.withDisk(5)
		f.mustUp(a)
	}
}

func TestUp_BoundsRepositoriesByTheEphemeralDisk(t *testing.T) {
	repo := t.TempDir()
	git(t, repo, `git init -q -b main w && cd w && dd if=/dev/urandom of=x bs=1M count=2 2>&1
		git add . && git commit -q -m 1; cd ..; git clone -q --bare w w.git; git -C w.git update-server-info`)
	server := httptest.NewServer(http.FileServer(http.Dir(repo)))
	defer server.Close()
	f := newFixture(t)
	f.withDisk(1)
	err := f.up(t.Context(), artifact("git::"+server.URL+"/w.git"))
	f.checkBound(err, early)
	f.checkBound(err, "may have 1 MiB, the size of ephemeral_disk of its group; raise it")
	f.checkUntouched()
	f.withDisk(5)
	f.mustUp(artifact("git::" + server.URL + "/w.git"))
}

// The artifacts of all tasks share the disk.
func TestUp_SumsTheArtifactsOfAnAllocation(t *testing.T) {
	const want = "may have 2 MiB, the size of ephemeral_disk"
	f := newFixture(t)
	f.withDisk(2)
	f.file("x", zeros)
	f.mustUp(artifact("${URL}/x"))
	f.mustUp(artifact("${URL}/x", withDest("local/2"))) // as of another task
	f.checkBound(f.up(t.Context(), artifact("${URL}/x", withDest("local/3"))), want)
	f.env.Downloaded.Store(0)
	if err := account(f.env.AllocEnv, usage{bytes: 2 << 20}); err != nil {
		t.Error(err)
	}
	f.checkBound(account(f.env.AllocEnv, usage{bytes: 1}), want)
	if n := f.env.Downloaded.Load(); n != 2<<20 {
		t.Errorf("the allocation has %d bytes", n)
	}
}

// A group may reserve no space for its disk.
func TestUp_BoundsAGroupWithoutASizeByTheDefault(t *testing.T) {
	f := newFixture(t)
	f.file("x", zeros)
	for _, disk := range []*structs.EphemeralDisk{nil, {}, {Sticky: true}} {
		f.env.AllocEnv.Group = &structs.TaskGroup{EphemeralDisk: disk}
		f.env.Downloaded.Store(0)
		f.mustUp(artifact("${URL}/x"))
		f.env.Downloaded.Store(structs.DefaultDiskMB << 20)
		f.checkBound(f.up(t.Context(), artifact("${URL}/x")), "may have 300 MiB, the size of ephemeral_disk")
	}
}

// A download that is not delivered takes nothing of the disk.
func TestUp_CountsOnlyDeliveredArtifacts(t *testing.T) {
	f := newFixture(t)
	f.withDisk(1)
	f.file("x", zeros)
	if f.up(t.Context(), artifact("${URL}/x", withMode("file"))) == nil { // in the place of a directory
		t.Fatal("it was delivered")
	}
	f.mustUp(artifact("${URL}/x"))
}

func TestUp_KeepsSpaceOfTheNodeFree(t *testing.T) {
	const want = "client.moved_data.min_free; free some"
	f := newFixture(t)
	f.file("x", []byte("x"))
	f.cfg.MinFree = func() int64 { return math.MaxInt64 }
	f.checkFull(f.up(t.Context(), artifact("${URL}/x")), want)
	var keep atomic.Int64
	f.cfg.MinFree = keep.Load
	f.mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("x"))
		w.(http.Flusher).Flush()
		keep.Store(math.MaxInt64)
		<-r.Context().Done()
	})
	f.limitTime()
	f.checkFull(f.up(t.Context(), artifact("${URL}/slow")), "it does not fit: this node has")
	f.checkUntouched()
}

// Other downloads change the bounds of one that waits for them.
func TestUp_ReadsTheBoundsAfterTheWait(t *testing.T) {
	for _, change := range []func(f *fixture, keep *atomic.Int64){
		func(f *fixture, _ *atomic.Int64) { f.env.Downloaded.Store(1 << 20) },
		func(_ *fixture, keep *atomic.Int64) { keep.Store(math.MaxInt64) },
	} {
		f := newFixture(t)
		f.withDisk(1)
		f.file("x", []byte("x"))
		var keep atomic.Int64
		f.cfg.MinFree = keep.Load
		waits := make(chan struct{}, 10)
		f.cfg.Progress = func(_, _ string) { waits <- struct{}{} }
		if !f.cfg.Slots.running.TryAcquire(1) {
			t.Fatal("there is no slot")
		}
		result := make(chan error, 1)
		go func() { result <- f.up(t.Context(), artifact("${URL}/x")) }()
		await(t, waits, "wait for a slot")
		change(f, &keep)
		f.cfg.Slots.running.Release(1)
		err := <-result
		if err == nil || !strings.Contains(err.Error(), "nothing more fits") || len(f.requests) > 0 {
			t.Errorf("got %v after %d requests", err, len(f.requests))
		}
	}
}

// An archive is on the disk beside its files.
func TestRequest_NamesTheBoundsOfAnArchiveAndItsFiles(t *testing.T) {
	a := &artifacts{cfg: Config{Settings: DefaultSettings()}}
	a.cfg.Settings.HTTPMaxSize = 10
	disk := download.Bound{Bytes: 100, By: "disk"}
	free := download.Bound{Bytes: 1000, By: "free", Passing: true}
	const answer = "http_max_size of the agent"
	for _, c := range []struct {
		disk, free download.Bound
		want       download.Bound
	}{
		{disk, free, download.Bound{Bytes: 110, By: answer + "; disk"}},
		{download.Bound{Bytes: 5, By: "disk"}, free, download.Bound{Bytes: 10, By: "disk"}},
		{disk, download.Bound{Bytes: 50, By: "free", Passing: true},
			download.Bound{Bytes: 50, By: "free", Passing: true}},
	} {
		_, most, err := a.request(artifact("https://x/y.zip"), c.disk, c.free)
		if err != nil || most.size != c.want {
			t.Errorf("got %+v and %v, want %+v", most.size, err, c.want)
		}
	}
}
