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
)

// shared makes the directories for staging and publishing shared mounts, as an orchestrator passes them to a
// plugin. Each driver process gets its own mount namespace.
func (w *fixture) shared() {
	w.t.Helper()
	w.attr.Cloneflags = syscall.CLONE_NEWNS
	for _, d := range []string{w.path("stage"), w.path("targets")} {
		w.must("bind", unix.Mount(d, d, "", unix.MS_BIND, ""))
		w.must("share", unix.Mount("", d, "", unix.MS_SHARED, ""))
	}
}

func (w *fixture) unshared() {
	for _, d := range []string{w.path("stage"), w.path("targets")} {
		w.must("unbind", backoff.RetryEBUSY(context.Background(), func() error { return unix.Unmount(d, 0) }))
	}
}

// In its own task the driver has another mount table than its orchestrator, and its successor has yet another
// one. All of them see mounts in shared directories.
func TestDriver_InAPrivateMountNamespace(t *testing.T) {
	each(t, kinds, func(t *testing.T, k kind) {
		w := newFixture(t)
		w.shared()
		w.start()
		v := w.volume(k, "v")
		v.up()
		w.must("write", v.write(v.target, "precious")) // here, not in the driver's namespace
		w.kill()
		v.holds(v.target, "precious")
		w.start()
		w.must("stage what is staged", v.doStage())
		w.must("publish what is published", v.doPublish(v.target, false))
		if n := len(mountsBelow(t, v.target)); n != 1 {
			t.Fatalf("%d mounts are stacked on the target", n)
		}
		w.refused("delete what is published", "FailedPrecondition", v.doDelete())
		v.down()
		w.unshared()
	})
}

// A private mount namespace that was made while a volume was mounted keeps the mount when it is gone
// everywhere else. The volume can be staged again at once, and is deleted when that namespace ends.
func TestUnstage_WithAMountElsewhere(t *testing.T) {
	anImage.needs(t)
	w := running(t)
	v := w.volume(anImage, "v")
	v.up()
	w.must("write", v.write(v.target, "precious"))
	elsewhere := holdNamespace(t)
	w.must("unpublish", v.doUnpublish(v.target))
	w.must("unstage", v.doUnstage())
	v.up()
	v.holds(v.target, "precious")
	w.must("unpublish", v.doUnpublish(v.target))
	w.must("unstage", v.doUnstage())
	w.refused("delete what is mounted elsewhere", "FailedPrecondition", v.doDelete())
	elsewhere()
	w.must("delete", v.doDelete())
}

// holdNamespace starts a process with a private copy of the mount table; the function it returns ends it.
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
		Files: []*os.File{r, readyW, nil}, Sys: &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS,
			Pdeathsig: syscall.SIGKILL}})
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
	w := running(t)
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
	t.Cleanup(func() { cancel(); killer.Wait() })
	persist := func(what string, do func() error) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for {
			err := do()
			if err == nil {
				return
			}
			if !structs.IsKind(err, structs.KindUnavailable) || time.Now().After(deadline) {
				t.Fatalf("%s: %v", what, err)
			}
			<-time.After(time.Millisecond)
		}
	}
	for round := range 6 {
		for _, k := range kinds {
			one(t, w, k, string(rune('a'+round))+k.name, persist)
		}
	}
	cancel()
	killer.Wait()
	list, err := w.ListVolumes(t.Context(), &structs.ClientCSIListRequest{})
	if err != nil || len(list.Volumes) != 0 {
		t.Fatalf("%+v %v", list, err)
	}
}

// one takes one volume through its life.
func one(t *testing.T, w *fixture, k kind, name string, persist func(string, func() error)) {
	t.Helper()
	var v *testVolume
	persist("create", func() error {
		r, err := w.CreateVolume(t.Context(), k.createRequest(name))
		if err == nil {
			v = w.known(k, name, r.ExternalID)
		}
		return err
	})
	persist("stage", v.doStage)
	persist("publish", func() error { return v.doPublish(v.target, false) })
	if err := v.write(v.target, "precious"); err != nil {
		t.Fatal(err)
	}
	persist("unpublish", func() error { return v.doUnpublish(v.target) })
	persist("unstage", v.doUnstage)
	snap := ""
	persist("snapshot", func() (err error) {
		snap, err = w.snapshot(v.id, name)
		return err
	})
	persist("stage", v.doStage)
	persist("publish", func() error { return v.doPublish(v.target, true) })
	v.holds(v.target, "precious")
	persist("unpublish", func() error { return v.doUnpublish(v.target) })
	persist("unstage", v.doUnstage)
	persist("delete snapshot", func() error { return w.deleteSnapshot(snap) })
	persist("delete", v.doDelete)
	if _, err := os.Stat(v.target); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the target is left: %v", err)
	}
}
