package volumes

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"berth/client/csi/registry"
	"berth/structs"
)

// A plugin that answers UNIMPLEMENTED must not be called again, and one that answers INVALID_ARGUMENT not
// with the same request (CSI spec, "Error Scheme"). Only its RPC releases a volume, so the node keeps the
// volume and parks the call: see registry.Parked.

func (c *Conn) process() registry.Answerer {
	return registry.Answerer{
		Client:      c.Client,
		Connections: c.Connections(),
		Provider:    c.Info.Provider,
		Version:     c.Info.ProviderVersion,
	}
}

// unlessParked returns a call that is made only if the process has not rejected it. It checks this when it
// holds the lock: the answer to an earlier call whose caller had stopped waiting counts as well.
func (w *volumeWork) unlessParked(c registry.ParkedCall, call pluginCall) pluginCall {
	return func(ctx context.Context, conn *Conn) error {
		err := w.parked.Rejected(c, conn.process())
		if err != nil {
			return err
		}

		err = call(ctx, conn)
		if registry.Parks(err) {
			err = fmt.Errorf("%w; the plugin rejected this at %s and is not called again before another "+
				"process of it answers or an operator retries: restart or replace its allocation %s",
				err, clockText(time.Now().UnixNano()),
				structs.ShortID(conn.Registration.AllocID))
		}

		// The call may have made a new connection. Its other end has answered then.
		w.parked.RecordAnswer(c, conn.process(), err)
		return err
	}
}

// UnparkCalls lets the node make the parked calls of a volume again, because an operator requests it.
func (v *Volumes) UnparkCalls(k VolumeKey) { v.parked.Unpark(k.String()) }

// RetryMounts ends the pauses after failed mounts of a volume, because an operator requests it. It returns
// the allocations that wait for the mounts, in order.
func (v *Volumes) RetryMounts(k VolumeKey) (allocs []string) { return v.failed.retry(k) }

// failedMount is the mount of a volume for an allocation.
type failedMount struct {
	volume VolumeKey
	alloc  string
}

// failedMounts holds the mounts that have failed and are made again. Its zero value is ready for use.
type failedMounts struct {
	mu  sync.Mutex
	due map[failedMount]chan struct{} // closed when an operator wants the next call at once
}

// add returns the channel that closes with the next request of an operator.
func (f *failedMounts) add(m failedMount) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.due == nil {
		f.due = map[failedMount]chan struct{}{}
	}
	if f.due[m] == nil {
		f.due[m] = make(chan struct{})
	}
	return f.due[m]
}

func (f *failedMounts) remove(m failedMount) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.due, m)
}

func (f *failedMounts) retry(volume VolumeKey) (allocs []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for m, due := range f.due {
		if m.volume == volume {
			close(due)
			delete(f.due, m)
			allocs = append(allocs, m.alloc)
		}
	}
	slices.Sort(allocs)
	return allocs
}
