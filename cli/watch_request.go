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
func (w *watch) request(ctx context.Context, report func(), send func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- send() }()
	next := time.NewTimer(firstReport)
	defer next.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil && ctx.Err() != nil {
				return structs.Timeoutf("interrupted; the operation may continue%s", w.advice())
			}
			return err
		case <-next.C:
			report()
			next.Reset(readWait)
		}
	}
}

// await sends a request that changes something, and says what the answer waits for if it is late.
func (c *Call) await(ctx context.Context, what string, send func() error) error {
	w := newWatch(c)
	return w.request(ctx, func() { w.writeChange("request", "  waits for %s", what) }, send)
}

// volumeRequest sends a request about a volume and explains meanwhile why the answer is delayed.
func (w *watch) volumeRequest(ctx context.Context, ns, id string, send func() error) error {
	w.waitFor("volume", ns, id)
	return w.request(ctx, func() { w.reportProgress(ctx, ns, id) }, send)
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
