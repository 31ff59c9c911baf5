package artifacthook

import (
	"archive/tar"
	"bytes"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"berth/structs"
)

// withDisk gives the group of the fixture an ephemeral_disk of a size in MiB.
func (f *fixture) withDisk(size int) {
	f.env.AllocEnv.Group = &structs.TaskGroup{EphemeralDisk: &structs.EphemeralDisk{SizeMB: size}}
}

func (f *fixture) checkBound(err error, want string) {
	f.t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || !structs.IsKind(err, structs.KindUnavailable) {
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
	f.checkBound(f.up(t.Context(), artifact("${URL}/x")), want)
	var keep atomic.Int64
	f.cfg.MinFree = keep.Load
	f.mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("x"))
		w.(http.Flusher).Flush()
		keep.Store(math.MaxInt64)
		<-r.Context().Done()
	})
	f.limitTime()
	f.checkBound(f.up(t.Context(), artifact("${URL}/slow")), "it does not fit: this node has")
	f.checkUntouched()
}
