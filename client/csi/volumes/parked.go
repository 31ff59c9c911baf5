package volumes

import (
	"context"
	"fmt"
	"time"

	"berth/client/csi/parking"
	"berth/client/csi/volumes/locks"
	"berth/structs"
)

// A plugin that answers UNIMPLEMENTED must not be called again, and one that answers INVALID_ARGUMENT not
// with the same request (CSI spec, "Error Scheme"). Only its RPC releases a volume, so the node keeps the
// volume and parks the call: see package parking.

func (c *Conn) process() parking.Process {
	return parking.Process{
		Client:      c.Client,
		Connections: c.Connections(),
		Provider:    c.Info.Provider,
		Version:     c.Info.ProviderVersion,
	}
}

// unlessParked returns a call that is made only if the process has not rejected it. It checks this when it
// holds the lock: the answer to an earlier call whose caller had stopped waiting counts as well.
func (w *volumeWork) unlessParked(c parking.Call, call pluginCall) pluginCall {
	return func(ctx context.Context, conn *Conn) error {
		err := w.parked.Rejected(c, conn.process())
		if err != nil {
			return err
		}

		err = call(ctx, conn)
		if parking.Parks(err) {
			err = fmt.Errorf("%w; the plugin rejected this at %s and is not called again before another "+
				"process of it answers or an operator retries: restart or replace its allocation %s",
				err, locks.Clock(time.Now().UnixNano()),
				structs.ShortID(conn.Registration.AllocID))
		}

		// The call may have made a new connection. Its other end has answered then.
		w.parked.RecordAnswer(c, conn.process(), err)
		return err
	}
}

// UnparkCalls lets the node make the parked calls of a volume again, because an operator requests it.
func (v *Volumes) UnparkCalls(k VolumeKey) { v.parked.Unpark(k.String()) }
