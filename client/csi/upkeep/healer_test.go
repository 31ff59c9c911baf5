package upkeep

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/structs"
	"berth/structs/storage"
)

func newHealer() *Healer { return NewHealer(NewMonitor(MonitorConfig{}), nil) }

func keyOf(alloc string) MountKey {
	return MountKey{Volume: storage.UsageKey{Namespace: "default", VolumeID: "data"}, AllocID: alloc}
}

// TestPace_DelaysRepairsThatFollow: the first repair of a mount, and one after a long calm, follow at once.
func TestPace_DelaysRepairsThatFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHealer()
		paced := func(k MountKey) time.Duration {
			begin := time.Now()
			if !h.Pace(t.Context(), k) {
				t.Fatal("Pace has ended before its time")
			}
			return time.Since(begin)
		}
		one := keyOf("a1")
		if d := paced(one); d != 0 {
			t.Errorf("the first repair waits %s", d)
		}
		last := time.Duration(0)
		for i := range 20 {
			d := paced(one)
			if d < MinHealPause/2 || d > MaxHealPause+MaxHealPause/2 || i < 3 && d < last {
				t.Errorf("repair %d waits %s after %s", i, d, last)
			}
			last = d
		}
		if d := paced(keyOf("a2")); d != 0 {
			t.Errorf("the first repair of another mount waits %s", d)
		}
		time.Sleep(settled - time.Second)
		if d := paced(one); d == 0 {
			t.Error("a repair that follows in time does not wait")
		}
		time.Sleep(settled + time.Second)
		if d := paced(one); d != 0 {
			t.Errorf("a repair after a long calm waits %s", d)
		}

		paced(one)
		h.Forget("a2")
		if d := paced(one); d == 0 {
			t.Error("the repairs of another allocation are forgotten")
		}
		h.Forget("a1")
		if d := paced(one); d != 0 {
			t.Errorf("a repair of an allocation that was forgotten waits %s", d)
		}
	})
}

func TestPace_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHealer()
		h.Pace(t.Context(), keyOf("a1"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if h.Pace(ctx, keyOf("a1")) {
			t.Error("Pace has waited")
		}
	})
}

// TestAwaitUnused_WaitsForTheLastTask: a task of another allocation does not count.
func TestAwaitUnused_WaitsForTheLastTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHealer()
		one := keyOf("a1")
		never := func() bool { return false }
		first := h.Enter(one)
		second := h.Enter(one)
		defer h.Enter(keyOf("a2"))()
		ended := make(chan error, 1)
		go func() { ended <- h.AwaitUnused(t.Context(), one, never) }()
		first()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("it ends while a task runs: %v", err)
		default:
		}
		second()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := h.AwaitUnused(t.Context(), one, never); err != nil {
			t.Error(err)
		}
	})
}

// TestAwaitUnused_EndsWhenNothingIsToDo: the condition is tried again at each change of a mount.
func TestAwaitUnused_EndsWhenNothingIsToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHealer()
		one := keyOf("a1")
		defer h.Enter(one)()
		healthy := make(chan struct{})
		done := func() bool {
			select {
			case <-healthy:
				return true
			default:
				return false
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- h.AwaitUnused(t.Context(), one, done) }()
		synctest.Wait()
		close(healthy)
		h.Health.SetCondition(one.Volume, &storage.VolumeCondition{Abnormal: true}) // a change
		if err := <-ended; err != nil {
			t.Error(err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := h.AwaitUnused(ctx, one, func() bool { return false })
		if !structs.IsKind(err, structs.KindTimeout) {
			t.Errorf("with a context that has ended: %v", err)
		}
	})
}

func TestLock_LetsOneRepairOfAMountWork(t *testing.T) {
	h := newHealer()
	release, err := h.Lock(t.Context(), keyOf("a1"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Lock(ctx, keyOf("a1")); err == nil {
		t.Error("two repairs of a mount have the lock")
	}
	other, err := h.Lock(t.Context(), keyOf("a2"))
	if err != nil {
		t.Fatal(err)
	}
	other()
	release()
	again, err := h.Lock(t.Context(), keyOf("a1"))
	if err != nil {
		t.Fatal(err)
	}
	again()
}
