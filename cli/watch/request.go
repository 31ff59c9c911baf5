package watch

import (
	"context"
	"fmt"
	"time"

	"berth/api"
	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/command"
	"berth/structs"
)

// firstReport is the delay before the first explanation of a request that waits. Most requests end earlier.
const firstReport = 500 * time.Millisecond

// Request sends a request and reports meanwhile, once it has waited for firstReport, what delays the answer.
// A report takes explainTime at most, and ends with the request.
func (w *Watch) Request(ctx context.Context, report func(context.Context), send func() error) error {
	defer w.Call.Explain()()
	waits, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- send()
		stop()
	}()
	next := time.NewTimer(firstReport)
	defer next.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil && ctx.Err() != nil {
				return w.interrupted()
			}
			return err

		case <-next.C:
			limited, cancel := context.WithTimeout(waits, explainTime)
			report(limited)
			cancel()
			next.Reset(ReadWait)
		}
	}
}

// interrupted is the fault of a request that its user has interrupted.
func (w *Watch) interrupted() error {
	if w.Call.Command.Acts {
		return structs.Timeoutf("interrupted; the operation may continue%s", w.Advice())
	}
	return structs.Timeoutf("interrupted%s", w.Advice())
}

// The next steps after requests that do not concern one object.
const (
	SeeServers = "to see the servers: berth server members"
	SeePeers   = "to see the servers: berth operator raft list-peers"
)

// SeeAlloc returns the next step after a request about an allocation.
func SeeAlloc(c *command.Call, id string) string {
	return "to see its state: " + structs.CommandLine(c.Namespace(), "alloc status", show.ShortID(id))
}

// SeeNode returns the next step after a request about a node.
func SeeNode(id string) string {
	return "to see its state: " + structs.CommandLine("", "node status", show.ShortID(id))
}

// SeePlugin returns the next step after a request about a plugin.
func SeePlugin(id string) string {
	return "to see its instances: " + structs.CommandLine("", "plugin status", id)
}

// Await sends a request, and says what the answer waits for if it is late. The fault of the request names the
// next step.
func (w *Watch) Await(ctx context.Context, what, step string, send func() error) error {
	w.Waits.Step = step
	err := w.AwaitAnswer(ctx, what, send)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return w.WithNextStep(ctx, err)
}

// AwaitAnswer sends a request, and says what the answer waits for if it is late. The standard output of a
// command that changes nothing is for the answer alone.
func (w *Watch) AwaitAnswer(ctx context.Context, what string, send func() error) error {
	if !w.Call.Command.Acts {
		w.out = w.Call.Err
	}
	return w.Request(ctx, func(context.Context) { w.WriteChange("request", "  waits for %s", what) }, send)
}

// VolumeRequest sends a request about a volume and explains meanwhile why the answer is delayed.
func (w *Watch) VolumeRequest(ctx context.Context, ns, id string, send func() error) error {
	w.WaitFor("volume", ns, id)
	report := func(ctx context.Context) { w.reportProgress(ctx, ns, id) }
	return w.Request(ctx, report, send)
}

// reportProgress writes the progress of a volume's change, and the remedies if it is held up. It ignores
// errors, because the request itself reports the outcome.
func (w *Watch) reportProgress(ctx context.Context, ns, id string) {
	d, _, err := volumes.Get(ctx, w.API, id, &api.Query{Namespace: ns})
	if err != nil {
		return
	}

	why := show.JoinComma(show.ProblemText(d.LastError), show.BlockedText(d), show.GrowthText(d))
	switch {
	case why == "":
		why = "waits for the answer of the plugin"
	case d.State == structs.VolumeDeleting:
		why += "; to deregister it without a call of the plugin: " +
			structs.CommandLine(d.Namespace, "volume deregister -force", id)
	}

	w.WriteChange("volume", "Volume %q is %s: %s", id, currentChange(d), why)
	causes, waits := w.causesOf(ctx, volumes.Why, Named{Namespace: ns, ID: id})
	if !waits || d.LastError == nil {
		return
	}

	for _, r := range causes[:min(len(causes), mostCauses)] {
		if r.Remedy != "" {
			w.WriteChange("remedy "+r.Remedy, "  -> %s", show.OneLine(r.Remedy))
		}
	}
}

// currentChange names the operation in flight of a volume. A volume that has not grown yet counts as not
// ready.
func currentChange(v *structs.CSIVolumeDetail) string {
	if v.State == structs.VolumeReady &&
		(v.Expands() || v.NodeExpandBytes > 0) {
		return "being expanded"
	}
	return v.State
}

// ReportDetach writes why a volume is still in use on a node. It ignores errors, as reportProgress does.
func (w *Watch) ReportDetach(ctx context.Context, id, nodeID string) {
	d, _, err := volumes.Get(ctx, w.API, id, nil)
	if err != nil {
		return
	}

	why := ""
	for _, claim := range d.Claims {
		if claim.NodeID == nodeID {
			held := fmt.Sprintf("the claim of allocation %s: %s", w.Call.ID(claim.AllocID), WhyHeld(claim))
			why = show.JoinComma(why, held)
		}
	}

	for _, a := range d.Attachments {
		if a.NodeID == nodeID && a.LastError != nil {
			why = show.JoinComma(why, show.ProblemText(a.LastError))
		}
	}

	if why == "" {
		why = "waits for the answer of the node"
	}

	w.WriteChange("volume", "Volume %q on node %s: %s", id, show.ShortID(nodeID), why)
}
