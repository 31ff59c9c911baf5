package hostpath

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/plugins/hostpath/disk"
)

func TestRetryEBUSY_EndsWithTheDriver(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := disk.RetryBusy(ctx, func() error {
		cancel()
		return unix.EBUSY
	})
	if disk.CodeOf(err) != codes.Unavailable || !errors.Is(err, unix.EBUSY) {
		t.Errorf("got %v, want Unavailable with EBUSY", err)
	}
}

// runHere runs the driver in this process until the test ends, and calls at for each point of the driver.
func (w *fixture) runHere(at func(point string)) {
	w.t.Helper()
	crash = at
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, w.cfg) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
		crash = func(string) {}
	})
	w.must("dial", w.dial())
	w.must("start", w.awaitReady())
}

func TestUnpublish_WaitsForABusyMount(t *testing.T) {
	for _, k := range []kind{aDirectory, anImage} {
		t.Run(k.name, func(t *testing.T) {
			k.needs(t)
			w := newFixture(t)
			release := func() {}
			w.runHere(func(point string) {
				if point == "unmount busy" {
					release()
				}
			})
			v := w.volume(k, "v")
			v.stageAndPublish()
			held := func(path string) {
				f, err := os.Create(filepath.Join(path, "open"))
				w.must("open", err)
				release = sync.OnceFunc(func() { _ = f.Close() })
			}
			held(v.target)
			w.must("unpublish", v.doUnpublish(v.target))
			held(v.stage)
			w.must("unstage", v.doUnstage())
			w.must("delete", v.doDelete())
		})
	}
}

// The kernel detaches an open device after its close. An attach of the image before the close keeps the
// device.
func TestAttach_KeepsADeviceThatWasToBeDetached(t *testing.T) {
	needRoot(t)
	needLoops(t)
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = disk.DetachLoop(image) })
	attached := func() *os.File {
		t.Helper()
		dev, err := disk.AttachLoop(t.Context(), image, false, false)
		if err != nil {
			t.Fatal(err)
		}
		return dev
	}
	first := attached()
	if err := disk.DetachLoop(image); err != nil {
		t.Fatal(err)
	}
	second := attached()
	_, _ = first.Close(), second.Close()
	if devices, err := disk.LoopsOf(image); err != nil || len(devices) != 1 {
		t.Fatalf("attached to %v, %v", devices, err)
	}
	if err := disk.DetachLoop(image); err != nil {
		t.Fatal(err)
	}
	if devices, err := disk.LoopsOf(image); err != nil || len(devices) != 0 {
		t.Fatalf("still attached to %v, %v", devices, err)
	}
}
