package upkeep

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/csi/helper"
	"berth/structs"
	"berth/structs/storage"
	"berth/test/kit"
)

// mount mounts a file system for a test.
func mount(t *testing.T, kind, options string) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it mounts")
	}
	dir = t.TempDir()
	kit.Must(t, unix.Mount("none", dir, kind, 0, options))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// ask asks one file system.
func ask(ctx context.Context, h *helper.Pool, path string) (u *storage.VolumeUsage, err error) {
	tell := func(_ int, got *storage.VolumeUsage, fault error) {
		u = got
		err = fault
	}
	askFileSystems(ctx, asking{h, time.Minute, tell}, []string{path})
	return u, err
}

func TestStatfs_MeasuresAFileSystem(t *testing.T) {
	dir := mount(t, "tmpfs", "size=1m,nr_inodes=100")
	kit.Must(t, os.WriteFile(filepath.Join(dir, "file"), make([]byte, 256<<10), 0o600))
	h := helper.New([]string{os.Args[0]})
	u, err := ask(t.Context(), h, dir)
	kit.Must(t, err)
	want := storage.UsageAmount{Total: 1 << 20, Used: 256 << 10, Available: 768 << 10}
	if *u.Bytes != want || u.Inodes.Total != 100 || u.Inodes.Used != 2 || u.Inodes.Available != 98 ||
		u.Source != storage.UsageByStatfs {
		t.Errorf("%+v, %+v, %+v", u, u.Bytes, u.Inodes)
	}

	_, err = ask(t.Context(), h, dir+"/gone")
	if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
	awaitProcesses(t, h, 0)
}

// awaitProcesses waits until a number of processes of a pool have not ended.
func awaitProcesses(t *testing.T, h *helper.Pool, want int) {
	t.Helper()
	for h.Running() != want {
		if t.Context().Err() != nil {
			t.Fatalf("%d helpers run, want %d", h.Running(), want)
		}
		time.Sleep(time.Millisecond)
	}
}

// mountFUSE mounts a FUSE file system with a server process.
func mountFUSE(t *testing.T, dir string) *kit.FUSE {
	t.Helper()
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return kit.MountFUSE(t, dir, "")
}

// A FUSE file system whose server never answers blocks every process that asks it.
func TestStatfs_DoesNotWaitForAFileSystemThatHangs(t *testing.T) {
	dir := t.TempDir()
	mountFUSE(t, dir).Hang()
	h := helper.New([]string{os.Args[0]})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := ask(ctx, h, dir)
	if !structs.IsKind(err, structs.KindTimeout) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
}

// The server has taken the requests of the processes, and answers none: they stay after SIGKILL.
func TestStatfs_BoundsTheHelpersThatDoNotEnd(t *testing.T) {
	dir := t.TempDir()
	fs := mountFUSE(t, dir)
	fs.Swallow()
	h := helper.New([]string{os.Args[0]})
	// A process that starts late is killed before it asks, and ends. Another one takes its place.
	full := false
	for asked := 0; !full; asked++ {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := ask(ctx, h, dir)
		cancel()
		full = structs.IsKind(err, structs.KindUnavailable)
		if !full && !structs.IsKind(err, structs.KindTimeout) || full && asked < helper.Max {
			t.Fatalf("after %d processes: %v", asked, err)
		}
	}
	if h.Running() > helper.Max {
		t.Errorf("%d processes run", h.Running())
	}

	fs.Die()
	awaitProcesses(t, h, 0)
	_, err := ask(t.Context(), h, "/")
	kit.Must(t, err)
}

// A volume that holds a process gets no second one, however often it is due, so the others are measured.
func TestPoller_GivesAVolumeThatHoldsAProcessNoOther(t *testing.T) {
	dir := t.TempDir()
	fs := mountFUSE(t, dir)
	fs.Swallow()
	p := filesFixture(dir, "/")
	p.cfg.Timeout = 5 * time.Second // once, for the volume that hangs; the other one has as long for its process
	for i := range helper.Max + 1 {
		p.pollDue(t.Context())
		if u := p.use("/"); u.Error != "" || u.Time == 0 {
			t.Fatalf("after %d rounds the use of the other volume is %+v", i+1, u)
		}
	}
	awaitProcesses(t, p.cfg.Helpers, 1)

	fs.Die()
	key := storage.UsageKey{VolumeID: dir}
	for p.isHeld(key) {
		if t.Context().Err() != nil {
			t.Fatal("the volume holds its process")
		}
		time.Sleep(time.Millisecond)
	}
	p.pollDue(t.Context())
	if u := p.use(dir); strings.Contains(u.Error, "does not end") {
		t.Errorf("the volume that holds none any more was not asked: %+v", u)
	}
}

func TestStatfs_NamesAFailedHelper(t *testing.T) {
	h := helper.New([]string{"/nonexistent"})
	if _, err := ask(t.Context(), h, "/"); err == nil || h.Running() != 0 {
		t.Errorf("got %v", err)
	}
	echo, err := exec.LookPath("echo")
	kit.Must(t, err)
	h = helper.New([]string{echo})
	_, err = ask(t.Context(), h, "/")
	if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), "without an answer") {
		t.Errorf("got %v", err)
	}
}

// filesFixture returns a poller of the file systems at paths, which waits shortly for each.
func filesFixture(paths ...string) *Poller {
	var list []PolledVolume
	for _, path := range paths {
		list = append(list, PolledVolume{Key: storage.UsageKey{VolumeID: path}, Path: path})
	}
	p := NewPoller(PollerConfig{
		List:    func() ([]PolledVolume, error) { return list, nil },
		Helpers: helper.New([]string{os.Args[0]}),
		Timeout: 4 * time.Second,
	})
	p.due(time.Time{}) // the first look gives each a time
	return p
}

// pollDue does all work that is due after two intervals, and returns the number of its parts.
func (p *Poller) pollDue(ctx context.Context) (parts int) {
	work := p.dueWork(ctx, time.Now().Add(2*MaxPollPause*p.cfg.Interval))
	for _, do := range work {
		do()
	}
	return len(work)
}

func (p *Poller) use(path string) *storage.VolumeUsage {
	return p.Of([]storage.UsageKey{{VolumeID: path}})[0]
}

// TestPoller_AsksFileSystemsTogether: one that hangs leaves the others their answers, and is alone the next
// time, until it has answered. One that fails is no such one.
func TestPoller_AsksFileSystemsTogether(t *testing.T) {
	hung := t.TempDir()
	fs := mountFUSE(t, hung)
	before := mount(t, "tmpfs", "")
	after := mount(t, "tmpfs", "")
	gone := before + "/gone"
	p := filesFixture(before, gone, hung, after)
	fs.Hang()
	if parts := p.pollDue(t.Context()); parts != 1 {
		t.Errorf("the first measurements are in %d parts, want 1", parts)
	}
	for _, path := range []string{before, after} {
		if u := p.use(path); u.Bytes == nil || u.Error != "" {
			t.Errorf("beside one that hangs: %+v", u)
		}
	}
	for path, want := range map[string]string{hung: "does not end", gone: "no such file"} {
		if u := p.use(path); !strings.Contains(u.Error, want) || !strings.Contains(u.Error, path) {
			t.Errorf("got %+v, want %q", u, want)
		}
	}

	if parts := p.pollDue(t.Context()); parts != 2 {
		t.Errorf("the next measurements are in %d parts, want 2", parts)
	}
	fs.Resume()
	// The process that asks starts as slowly as the machine lets it.
	for range 10 {
		p.pollDue(t.Context())
		if p.use(hung).Error == "" {
			break
		}
	}
	if u := p.use(hung); u.Bytes == nil || u.Error != "" {
		t.Errorf("after it has answered: %+v", u)
	}
	if parts := p.pollDue(t.Context()); parts != 1 {
		t.Errorf("the last measurements are in %d parts, want 1", parts)
	}
}

// A part has a bound, and a full pool leaves its volumes for the next time.
func TestPoller_BoundsTheFileSystemsOfAProcess(t *testing.T) {
	dir := mount(t, "tmpfs", "")
	var paths []string
	for i := range maxAsked + 1 {
		paths = append(paths, filepath.Join(dir, strconv.Itoa(i)))
		kit.Must(t, os.Mkdir(paths[i], 0o700))
	}
	p := filesFixture(paths...)
	if parts := p.pollDue(t.Context()); parts != 2 {
		t.Errorf("%d parts, want 2", parts)
	}
	for _, u := range p.Of(nil) {
		if u.Bytes == nil || u.Error != "" {
			t.Fatalf("got %+v", u)
		}
	}

	p.cfg.Helpers = helper.New([]string{"/nonexistent"})
	p.pollDue(t.Context())
	for _, u := range p.Of(nil) {
		if !strings.Contains(u.Error, "starting a process") {
			t.Fatalf("without a process: %+v", u)
		}
	}
	if parts := p.pollDue(t.Context()); parts != 2 {
		t.Errorf("after that %d parts, want 2", parts)
	}
}

func TestAmount_LeavesOutImpossibleNumbers(t *testing.T) {
	for _, c := range [][3]uint64{{0, 0, 0}, {10, 11, 0}, {10, 0, 11}, {1 << 63, 0, 0}} {
		if got := amount(c[0], c[1], c[2]); got != nil {
			t.Errorf("%v: %+v", c, got)
		}
	}
}
