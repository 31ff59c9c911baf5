package control

import (
	"context"
	"slices"
	"time"

	"berth/fsm"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs"
)

// A controller call is recorded with its node before it is made. The record is deleted with the outcome.
// While there is a record, the outcome is unknown, and only that node is called again: it orders the calls
// for a volume. If the node is not reachable, the call may still take effect. Until outcomeWait has passed,
// nothing else is done for the row. So an attach never overtakes the detach before it.

// outcomeWait is the time for which a controller call may still take effect after it was sent to a node that
// is no longer reachable. Until then it is neither repeated elsewhere nor undone.
const outcomeWait = structs.CallSettles

// callTimeout bounds one call to a node, unless the settings of the plugin have a timeout.
const callTimeout = 2 * time.Minute

// checkInterval is the time between two checks whether the node of such a call is reachable again.
const checkInterval = 2 * time.Second

// callable returns the nodes whose controllers may be called now, or the time until which none may.
func (c controllerLoop) callable(tx *state.ReadTx, w work) (candidates []string, until time.Time) {
	candidates = w.candidates(tx)
	switch {
	case w.call == nil:
		return candidates, time.Time{}
	case slices.Contains(candidates, w.call.NodeID):
		return []string{w.call.NodeID}, time.Time{}
	}

	now := c.Clock.Now()
	sent := c.seen.Time(c.Clock.Corrected(w.call.Time), now) // the call was sent before its record was seen
	until = sent.Add(outcomeWait)
	if now.Before(until) {
		return nil, c.Clock.Timer(until)
	}

	return candidates, time.Time{}
}

// recordingCalls returns a loop that records each call that it makes for a row.
func (c controllerLoop) recordingCalls(
	namespace string,
	row structs.CSICallNote,
	op string,
) controllerLoop {
	c.recordCall = func(ctx context.Context, node string) error {
		note := row
		note.WriteOptions = c.stamp(namespace)
		note.Call = &structs.CSICall{
			NodeID: node,
			Op:     op,
			Time:   note.Now,
		}

		return propose(ctx, c.Deps, fsm.CallNote, &note)
	}

	return c
}

// callController makes a typed call at the first of the candidates that can be reached. The next one is tried
// only after unavailable, which means that the call was not delivered, or the plugin was not called: see
// nodeconn.TryNext.
func callController[Req, Resp any](
	ctx context.Context,
	c controllerLoop,
	m structs.Method[Req, Resp],
	req *Req,
) (*Resp, error) {
	nodeconn.Address(c.Store.Read(), req)
	var err error
	for _, node := range c.candidates {
		if err := c.recordCall(ctx, node); err != nil {
			return nil, structs.Unavailablef("recording the call to node %s: %w", node, err)
		}

		nodeconn.StampEpoch(c.Store.Read(), node, req)
		var resp *Resp
		resp, err = nodeconn.Call(ctx, c.target(node), m, req)
		if !nodeconn.TryNext(err) || ctx.Err() != nil {
			return resp, asUncertain(err)
		}
	}

	return nil, err
}

// asUncertain turns an error into timeout if neither the plugin nor the node reported the outcome of the
// call.
func asUncertain(err error) error {
	if structs.IsKind(err, structs.KindInternal) &&
		structs.CodeOf(err) == "" {
		return structs.Timeoutf("%w", err)
	}
	return err
}

// keepsCall reports whether the record of a call stays after a failure: the outcome of this call is unknown,
// or it was not delivered and the outcome of an earlier one is unknown.
func keepsCall(earlier *structs.CSICall, err error) bool {
	return structs.IsKind(err, structs.KindTimeout) ||
		earlier != nil && structs.IsKind(err, structs.KindUnavailable)
}
