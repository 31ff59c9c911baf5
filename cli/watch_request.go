package cli

import (
	"context"
	"fmt"
	"time"

	"berth/api"
	"berth/structs"
)

// firstReport is the delay before the first explanation of a request that waits. Most requests end earlier.
const firstReport = 500 * time.Millisecond

// request sends a request and reports meanwhile, once it has waited for firstReport, what delays the answer.
// A report takes explainTime at most, and ends with the request.
func (w *watch) request(ctx context.Context, report func(context.Context), send func() error) error {
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
			next.Reset(readWait)
		}
	}
}

// interrupted is the fault of a request that its user has interrupted.
func (w *watch) interrupted() error {
	if w.c.cmd.Acts {
		return structs.Timeoutf("interrupted; the operation may continue%s", w.advice())
	}
	return structs.Timeoutf("interrupted%s", w.advice())
}

// The next steps after requests that do not concern one object.
const (
	seeServers = "to see the servers: berth server members"
	seePeers   = "to see the servers: berth operator raft list-peers"
)

// seeAlloc and seeNode return the next step after a request about an allocation or a node.
func seeAlloc(c *Call, id string) string {
	return "to see its state: " + structs.CommandLine(c.namespace(), "alloc status", shortID(id))
}

func seeNode(id string) string {
	return "to see its state: " + structs.CommandLine("", "node status", shortID(id))
}

func seePlugin(id string) string {
	return "to see its instances: " + structs.CommandLine("", "plugin status", id)
}

// await sends a request, and says what the answer waits for if it is late. The fault of the request names the
// next step. The standard output of a command that changes nothing is for the answer alone.
func (w *watch) await(ctx context.Context, what, step string, send func() error) error {
	w.waits.step = step
	if !w.c.cmd.Acts {
		w.out = w.c.Err
	}
	err := w.awaitAnswer(ctx, what, send)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return w.withNextStep(ctx, err)
}

// awaitAnswer sends a request, and says what the answer waits for if it is late.
func (w *watch) awaitAnswer(ctx context.Context, what string, send func() error) error {
	return w.request(ctx, func(context.Context) { w.writeChange("request", "  waits for %s", what) }, send)
}

// volumeRequest sends a request about a volume and explains meanwhile why the answer is delayed.
func (w *watch) volumeRequest(ctx context.Context, ns, id string, send func() error) error {
	w.waitFor("volume", ns, id)
	report := func(ctx context.Context) { w.reportProgress(ctx, ns, id) }
	return w.request(ctx, report, send)
}

// reportProgress writes the progress of a volume's change, and the remedies if it is held up. It ignores
// errors, because the request itself reports the outcome.
func (w *watch) reportProgress(ctx context.Context, ns, id string) {
	d, _, err := w.api.Volume(ctx, id, &api.Query{Namespace: ns})
	if err != nil {
		return
	}
	why := joinComma(problemText(d.LastError), blockedText(d), growthText(d))
	switch {
	case why == "":
		why = "waits for the answer of the plugin"
	case d.State == structs.VolumeDeleting:
		why += "; to deregister it without a call of the plugin: " +
			structs.CommandLine(d.Namespace, "volume deregister -force", id)
	}
	w.writeChange("volume", "Volume %q is %s: %s", id, currentChange(d), why)
	causes, waits := causesOf(ctx, w.api.VolumeWhy, named{ns, id})
	if !waits || d.LastError == nil {
		return
	}
	for _, r := range causes[:min(len(causes), mostCauses)] {
		if r.Remedy != "" {
			w.writeChange("remedy "+r.Remedy, "  -> %s", oneLine(r.Remedy))
		}
	}
}

// currentChange names the operation in flight of a volume. A volume that has not grown yet counts as not
// ready.
func currentChange(v *structs.CSIVolumeDetail) string {
	if v.State == structs.VolumeReady &&
		(v.ExpandPending || v.NodeExpandBytes > 0) {
		return "being expanded"
	}
	return v.State
}

// reportDetach writes why a volume is still in use on a node. It ignores errors, as reportProgress does.
func (w *watch) reportDetach(ctx context.Context, id, nodeID string) {
	d, _, err := w.api.Volume(ctx, id, nil)
	if err != nil {
		return
	}
	why := ""
	for _, claim := range d.Claims {
		if claim.NodeID == nodeID {
			held := fmt.Sprintf("the claim of allocation %s: %s", w.c.id(claim.AllocID), whyHeld(claim))
			why = joinComma(why, held)
		}
	}
	for _, a := range d.Attachments {
		if a.NodeID == nodeID && a.LastError != nil {
			why = joinComma(why, problemText(a.LastError))
		}
	}
	if why == "" {
		why = "waits for the answer of the node"
	}
	w.writeChange("volume", "Volume %q on node %s: %s", id, shortID(nodeID), why)
}
