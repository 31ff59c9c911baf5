package volumes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"berth/csi"
	"berth/structs"
)

// A plugin that answers UNIMPLEMENTED must not be called again, and one that answers INVALID_ARGUMENT not
// with the same request (CSI spec, "Error Scheme"). Only its RPC releases a volume, so the node keeps the
// volume and parks the call: the same process of the plugin is not called again before an operator requests
// it. The answers are only in memory, so a restarted agent makes the call once.

// parkedCodes are the answers after which a call that takes a volume back is parked.
var parkedCodes = []string{"InvalidArgument", "Unimplemented"}

// undoCall names a call that takes a volume back.
type undoCall struct {
	VolumeKey
	rpc  string
	path string // of the volume, on the host
}

// pluginProcess identifies the process of a plugin that answers, as well as the node can. Each instance has
// its own client, and another process behind the same socket has another connection.
type pluginProcess struct {
	client            *csi.Client
	connections       uint64
	provider, version string
}

func (c *Conn) process() pluginProcess {
	return pluginProcess{
		client:      c.Client,
		connections: c.Connections(),
		provider:    c.Info.Provider,
		version:     c.Info.ProviderVersion,
	}
}

// parking holds the calls that are parked.
type parking struct {
	mu      sync.Mutex
	answers map[undoCall]rejection
}

// rejection is the answer of a process that is not called again.
type rejection struct {
	by  pluginProcess
	err error
}

// rejected returns the answer by which the process rejected the call, or nil if the call is allowed.
func (p *parking) rejected(c undoCall, by pluginProcess) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.answers[c]
	if ok && r.by == by {
		return r.err
	}
	return nil
}

// recordAnswer stores an answer that parks the call. Any other answer removes the stored one.
func (p *parking) recordAnswer(c undoCall, by pluginProcess, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(parkedCodes, csi.Code(err)) {
		delete(p.answers, c)
		return
	}
	if p.answers == nil {
		p.answers = map[undoCall]rejection{}
	}
	p.answers[c] = rejection{by, err}
}

// unlessParked returns a call that is made only if the process has not rejected it. It checks this when it
// holds the lock: the answer to an earlier call whose caller had stopped waiting counts as well.
func (w *volumeWork) unlessParked(c undoCall, call pluginCall) pluginCall {
	return func(ctx context.Context, conn *Conn) error {
		err := w.parking.rejected(c, conn.process())
		if err != nil {
			return err
		}

		err = call(ctx, conn)
		if slices.Contains(parkedCodes, csi.Code(err)) {
			err = fmt.Errorf("%w; the plugin rejected this at %s and is not called again before another "+
				"process of it answers or an operator retries: restart or replace its allocation %s",
				err, clock(time.Now().UnixNano()),
				structs.ShortID(conn.Registration.AllocID))
		}

		// The call may have made a new connection. Its other end has answered then.
		w.parking.recordAnswer(c, conn.process(), err)
		return err
	}
}

// UnparkCalls lets the node make the parked calls of a volume again, because an operator requests it.
func (v *Volumes) UnparkCalls(k VolumeKey) {
	p := &v.parking
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.answers, func(c undoCall, _ rejection) bool {
		return c.VolumeKey == k
	})
}
