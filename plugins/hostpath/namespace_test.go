package hostpath

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/backoff"
	"berth/structs"
	"berth/structs/nodecalls"
)

// shareMounts makes the directories for staging and publishing shared mounts, as an orchestrator passes them
// to a plugin. Each driver process gets its own mount namespace.
func (w *fixture) shareMounts() {
	w.t.Helper()
	w.attr.Cloneflags = syscall.CLONE_NEWNS
	for _, d := range []string{w.path("stage"), w.path("targets")} {
		w.must("bind", unix.Mount(d, d, "", unix.MS_BIND, ""))
		w.must("share", unix.Mount("", d, "", unix.MS_SHARED, ""))
	}
}

func (w *fixture) unshareMounts() {
	for _, d := range []string{w.path("stage"), w.path("targets")} {
		err := backoff.RetryEBUSY(context.Background(), func() error {
			return unix.Unmount(d, 0)
		})
		w.must("unbind", err)
	}
}

// In its own task the driver has another mount table than its orchestrator, and its successor has yet another
// one. All of them see mounts in shared directories.
func TestDriver_InAPrivateMountNamespace(t *testing.T) {
	forEachKind(t, kinds, func(t *testing.T, k kind) {
		w := newFixture(t)
		w.shareMounts()
		w.start()
		v := w.volume(k, "v")
		v.stageAndPublish()
		w.must("write", v.write(v.target, "precious")) // in the namespace of the test
		w.kill()
		v.mustHold(v.target, "precious")
		w.start()
		w.must("stage what is staged", v.doStage())
		w.must("publish what is published", v.doPublish(v.target, false))
		if n := len(mountsBelow(t, v.target)); n != 1 {
			t.Fatalf("got %d mounts on the target, want 1", n)
		}
		w.mustFail("delete what is published", "FailedPrecondition", v.doDelete())
		v.remove()
		w.unshareMounts()
	})
}

// A private mount namespace that was made during a mount keeps the mount after the unmount elsewhere. The
// Volume can be staged again at once. It can be deleted after the end of that namespace.
func TestUnstage_WithAMountElsewhere(t *testing.T) {
	anImage.needs(t)
	w := newRunningFixture(t)
	v := w.volume(anImage, "v")
	v.stageAndPublish()
	w.must("write", v.write(v.target, "precious"))
	endNamespace := holdNamespace(t)
	w.must("unpublish", v.doUnpublish(v.target))
	w.must("unstage", v.doUnstage())
	v.stageAndPublish()
	v.mustHold(v.target, "precious")
	w.must("unpublish", v.doUnpublish(v.target))
	w.must("unstage", v.doUnstage())
	w.mustFail("delete what is mounted elsewhere", "FailedPrecondition", v.doDelete())
	endNamespace()
	w.must("delete", whileBusy(v.doDelete))
}

// holdNamespace starts a process with a private copy of the mount table. The returned function ends the
// process.
func holdNamespace(t *testing.T) (end func()) {
	t.Helper()
	r, wr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ready, readyW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "echo; read x"}, &os.ProcAttr{
		Files: []*os.File{r, readyW, nil},
		Sys: &syscall.SysProcAttr{
			Unshareflags: syscall.CLONE_NEWNS,
			Pdeathsig:    syscall.SIGKILL,
		},
	})
	_, _ = r.Close(), readyW.Close()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = ready.Read(make([]byte, 1))
	_ = ready.Close()
	end = sync.OnceFunc(func() {
		_ = wr.Close()
		_, _ = p.Wait()
	})
	t.Cleanup(end)
	return end
}

// The driver is killed at random moments while it creates, uses and removes volumes. Each call is repeated
// until it is answered. Written data is read again, and in the end nothing is left.
func TestCrash_AtRandomMoments(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	anImage.needs(t)
	w := newFixture(t)
	w.start()
	ctx, cancel := context.WithCancel(t.Context())
	var killer sync.WaitGroup
	killer.Go(func() {
		for i := range 12 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(rand.IntN(120)+i) * time.Millisecond):
			}
			w.kill()
			if err := w.launch(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		killer.Wait()
	})
	repeat := func(call string, do func() error) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for {
			err := do()
			if err == nil {
				return
			}
			if !structs.IsKind(err, structs.KindUnavailable) || time.Now().After(deadline) {
				t.Fatalf("%s: %v", call, err)
			}
			<-time.After(time.Millisecond)
		}
	}
	for round := range 6 {
		for _, k := range kinds {
			name := string(rune('a'+round)) + k.name
			w.useVolume(k, name, repeat)
		}
	}
	cancel()
	killer.Wait()
	list, err := w.ListVolumes(t.Context(), &nodecalls.ClientCSIListRequest{})
	if err != nil || len(list.Volumes) != 0 {
		t.Fatalf("got the volumes %+v, %v, want none", list, err)
	}
}

// useVolume creates a volume, uses it and removes it.
func (w *fixture) useVolume(k kind, name string, repeat func(string, func() error)) {
	t := w.t
	t.Helper()
	var v *testVolume
	repeat("create", func() error {
		r, err := w.CreateVolume(t.Context(), k.createRequest(name))
		if err == nil {
			v = w.testVolume(k, name, r.ExternalID)
		}
		return err
	})
	repeat("stage", v.doStage)
	repeat("publish", func() error { return v.doPublish(v.target, false) })
	if err := v.write(v.target, "precious"); err != nil {
		t.Fatal(err)
	}
	repeat("unpublish", func() error { return v.doUnpublish(v.target) })
	repeat("unstage", v.doUnstage)
	snap := ""
	repeat("snapshot", func() (err error) {
		snap, err = w.snapshot(v.id, name)
		return err
	})
	repeat("stage", v.doStage)
	repeat("publish", func() error { return v.doPublish(v.target, true) })
	v.mustHold(v.target, "precious")
	repeat("unpublish", func() error { return v.doUnpublish(v.target) })
	repeat("unstage", v.doUnstage)
	repeat("delete snapshot", func() error { return w.deleteSnapshot(snap) })
	repeat("delete", v.doDelete)
	if _, err := os.Stat(v.target); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the target is left: %v", err)
	}
}
