package upkeep

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/csi/helper"
	"berth/client/csi/volumes"
	"berth/structs/storage"
	"berth/test/kit"
)

// runProgram runs a program of the machine.
func runProgram(t *testing.T, name string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		kit.SkipLacking(t, "the program "+name)
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
}

// mountPoint returns a directory whose mounts go after the test.
func mountPoint(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it mounts")
	}
	dir := t.TempDir()
	t.Cleanup(func() {
		for unix.Unmount(dir, 0) == nil {
		}
	})
	return dir
}

// trimFixture has a trimmer of one volume, whose next slot begins when the test says so.
type trimFixture struct {
	*Trimmer
	volume  TrimmedVolume
	gone    bool
	busy    bool
	tries   int
	stepped func() // ends the work of a try
}

func newTrimFixture(t *testing.T, path string, helper ...string) *trimFixture {
	if len(helper) == 0 {
		helper = []string{os.Args[0]}
	}
	f := &trimFixture{volume: TrimmedVolume{
		Key:      storage.UsageKey{Namespace: "default", VolumeID: "data"},
		PluginID: "ebs",
		Path:     path,
		Every:    time.Hour,
		Users:    []string{"a1"},
	}}
	f.Trimmer = NewTrimmer(TrimmerConfig{
		List: func() ([]TrimmedVolume, error) {
			if f.gone {
				return nil, nil
			}
			return []TrimmedVolume{f.volume}, nil
		},
		IsWhole: IsWhole,
		Aside: func(ctx context.Context, _ storage.UsageKey, do func(context.Context)) bool {
			if f.busy {
				return false
			}
			f.tries++
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			f.stepped = cancel
			do(ctx)
			return ctx.Err() == nil
		},
		Helper: helper,
		Limit:  time.Minute,
	})
	f.see()
	return f
}

// see makes the trimmer see the volume in the slot before the present one.
func (f *trimFixture) see() { f.due([]TrimmedVolume{f.volume}, time.Now().Add(-f.volume.Every)) }

// again begins the next slot.
func (f *trimFixture) again() { f.volumes[f.volume.Key].slot-- }

func (f *trimFixture) status() storage.VolumeTrim { return *f.Of(f.volume.Key) }

// allocated returns the bytes of the storage that a file has.
func allocated(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	kit.Must(t, unix.Stat(path, &st))
	return st.Blocks * 512
}

// TestTrimmer_GivesTheSpaceOfDeletedFilesBack has an image in a file, whose blocks are the storage.
func TestTrimmer_GivesTheSpaceOfDeletedFilesBack(t *testing.T) {
	dir := mountPoint(t)
	image := filepath.Join(t.TempDir(), "image")
	kit.Must(t, os.WriteFile(image, nil, 0o600))
	kit.Must(t, os.Truncate(image, 64<<20))
	runProgram(t, "mkfs.ext4", "-q", image)
	runProgram(t, "mount", "-o", "loop", image, dir)
	data := filepath.Join(dir, "data")
	kit.Must(t, os.WriteFile(data, []byte(strings.Repeat("data", 8<<20)), 0o600))
	runProgram(t, "sync", "-f", dir)
	full := allocated(t, image)
	kit.Must(t, os.Remove(data))
	runProgram(t, "sync", "-f", dir)
	if full < 32<<20 || allocated(t, image) < 32<<20 {
		t.Fatalf("the image has %d bytes, and %d after the deletion", full, allocated(t, image))
	}

	f := newTrimFixture(t, dir)
	begin := time.Now().UnixNano()
	f.round(t.Context())
	s := f.status()
	left := allocated(t, image)
	if left > full-(30<<20) || s.Bytes < 30<<20 || s.Fault != "" || s.Time < begin ||
		s.Every != time.Hour || s.Next <= s.Time || s.Next > s.Time+int64(time.Hour) {
		t.Errorf("the image has %d of %d bytes, and the status is %+v", left, full, s)
	}
	f.round(t.Context())
	if f.tries != 1 {
		t.Errorf("%d tries in a slot", f.tries)
	}
	f.gone = true
	f.round(t.Context())
	if f.Of(f.volume.Key) != nil {
		t.Error("a volume that is gone is known")
	}
}

func TestTrimmer_StopsWhereTheStorageCannot(t *testing.T) {
	dir := mountPoint(t)
	kit.Must(t, unix.Mount("none", dir, "tmpfs", 0, ""))
	f := newTrimFixture(t, dir)
	f.round(t.Context())
	s := f.status()
	if f.tries != 1 || s.Time != 0 || s.Next != 0 || !strings.Contains(s.Fault, "inappropriate ioctl") {
		t.Errorf("%d tries, %+v", f.tries, s)
	}
	f.again()
	f.volume.Users = []string{"a1", "a2"}
	f.round(t.Context())
	f.again()
	f.volume.Users = []string{"a2"}
	f.round(t.Context())
	if f.tries != 1 || f.status().Fault == "" {
		t.Errorf("%d tries while it stays staged, %+v", f.tries, f.status())
	}
	f.volume.Users = []string{"a3"}
	f.round(t.Context())
	f.again()
	f.round(t.Context())
	if f.tries != 2 {
		t.Errorf("%d tries, want another one after it was staged again", f.tries)
	}
}

// A trim of a directory would be one of the whole file system, which others have.
func TestTrimmer_LeavesFileSystemsOfOthers(t *testing.T) {
	for name, mount := range map[string]func(t *testing.T, dir string){
		"a directory that is mounted": func(t *testing.T, dir string) {
			other := t.TempDir()
			kit.Must(t, unix.Mount(other, dir, "", unix.MS_BIND, ""))
		},
		"a directory that is not": func(*testing.T, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := mountPoint(t)
			mount(t, dir)
			f := newTrimFixture(t, dir, "/nonexistent")
			f.round(t.Context())
			s := f.status()
			if f.tries != 1 || s.Next != 0 || !strings.Contains(s.Fault, "a directory of a file system is mounted") {
				t.Errorf("%d tries, %+v", f.tries, s)
			}
		})
	}
}

func TestTrimmer_YieldsToSteps(t *testing.T) {
	f := newTrimFixture(t, "/proc", "/nonexistent")
	f.busy = true
	f.round(t.Context())
	f.busy = false
	f.cfg.IsWhole = func(string) (bool, error) {
		f.stepped()
		return true, nil
	}
	f.round(t.Context())
	if s := f.status(); s.Fault != "" || s.Time != 0 || f.tries != 1 {
		t.Errorf("a trim that has yielded has the status %+v", s)
	}
	f.cfg.IsWhole = func(string) (bool, error) { return false, nil }
	f.round(t.Context())
	if f.tries != 2 {
		t.Errorf("%d tries, want another one: the volume is due still", f.tries)
	}
}

// A step begins after the process of the trim has ended: it could not unmount the volume otherwise.
func TestTrimmer_AStepEndsTheProcess(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "pid")
	kit.Must(t, unix.Mkfifo(fifo, 0o600))
	f := newTrimFixture(t, "/proc", "/bin/sh", "-c", "echo $$ > "+fifo+"; exec sleep 1000")
	var steps volumes.Sequences
	f.cfg.Aside = func(ctx context.Context, k storage.UsageKey, do func(context.Context)) bool {
		return steps.Aside(ctx, k.VolumeID, do)
	}
	var trimming sync.WaitGroup
	trimming.Go(func() { f.round(t.Context()) })
	text, err := os.ReadFile(fifo) // it waits for the process
	kit.Must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	kit.Must(t, err)
	release, err := steps.Acquire(t.Context(), "data", "a step")
	kit.Must(t, err)
	defer release()
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("the process is there beside a step: %v", err)
	}
	trimming.Wait()
	if s := f.status(); s.Fault != "" || s.Time != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestTrimmer_TriesAgainInTheNextSlotAfterAFault(t *testing.T) {
	f := newTrimFixture(t, "/proc")
	f.cfg.Limit = 50 * time.Millisecond
	for i, c := range []struct {
		helper []string
		want   string
	}{
		{[]string{"/bin/sh", "-c", "exec sleep 1000"}, "does not end"},
		{[]string{"/bin/sh", "-c", "echo the disk is ill; exit 1"}, "the disk is ill"},
		{[]string{"/bin/sh", "-c", "echo nonsense"}, "the output of fitrim"},
		{[]string{"/nonexistent"}, "starting a process"},
	} {
		if i > 0 {
			f.cfg.Limit = time.Minute
		}
		f.pool = helper.New(c.helper)
		f.pool.Grace = grace
		f.again()
		f.round(t.Context())
		f.round(t.Context())
		s := f.status()
		if f.tries != i+1 || !strings.Contains(s.Fault, c.want) || s.Next <= time.Now().UnixNano() {
			t.Errorf("%d tries, %+v, want %q", f.tries, s, c.want)
		}
	}
}

func TestTrimmer_SpreadsVolumes(t *testing.T) {
	const tenth = 144 * time.Minute
	var counts [10]int
	for i := range 1000 {
		k := storage.UsageKey{Namespace: "default", VolumeID: strings.Repeat("v", i)}
		at := offset(k, 24*time.Hour)
		if at != offset(k, 24*time.Hour) {
			t.Error("a volume has two times")
		}
		counts[at/tenth]++
	}
	for _, n := range counts {
		if n < 50 || n > 200 {
			t.Fatalf("1000 volumes over the tenths of a day: %v", counts)
		}
	}
}

func TestTrimmer_RunTrimsOnceInEachSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTrimFixture(t, "/proc")
		f.volumes = map[storage.UsageKey]*trimState{}
		f.cfg.IsWhole = func(string) (bool, error) { return false, os.ErrPermission }
		ctx, cancel := context.WithCancel(t.Context())
		go f.Run(ctx)
		time.Sleep(10*time.Hour + time.Second)
		synctest.Wait()
		cancel()
		if f.tries != 10 {
			t.Errorf("%d tries in ten hours, want one in each", f.tries)
		}
	})
}
