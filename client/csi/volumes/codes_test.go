package volumes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/client/csi/registry"
	"berth/csi"
	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

// outcome is the effect of a code with which a plugin answers a call for a volume.
type outcome string

const (
	again  outcome = "made again at once, with the same arguments"
	fails  outcome = "fails with the plugin's words"
	stages outcome = "made again after the volume was staged again"
	keeps  outcome = "fails with the plugin's words; the next Down makes the same call"
	parks  outcome = "fails with the plugin's words; the next Down makes no call"
	looks  outcome = "made again while the mount table shows the volume"
)

// codes are all codes but OK, with their effects where the table of the RPC demands no other (CSI spec,
// "Error Scheme"). A call with an unknown outcome is repeated.
var codes = map[string]outcome{
	"Canceled":           again,
	"Unknown":            again,
	"DeadlineExceeded":   again,
	"ResourceExhausted":  again,
	"Aborted":            again,
	"Unavailable":        again,
	"InvalidArgument":    fails,
	"NotFound":           fails,
	"AlreadyExists":      fails,
	"PermissionDenied":   fails,
	"FailedPrecondition": fails,
	"OutOfRange":         fails,
	"Unimplemented":      fails,
	"Internal":           again, // three times: see TestUp_RepeatsAnInternalErrorBriefly
	"DataLoss":           again,
	"Unauthenticated":    fails,
}

// codesBut returns codes with another outcome for one.
func codesBut(code string, o outcome) map[string]outcome {
	other := maps.Clone(codes)
	other[code] = o
	return other
}

// undoOutcomes has the effects for a call that undoes another: such a call is repeated until it succeeds.
func undoOutcomes() map[string]outcome {
	kept := map[string]outcome{}
	for code := range codes {
		kept[code] = keeps
	}
	kept["NotFound"] = looks
	kept["InvalidArgument"] = parks
	kept["Unimplemented"] = parks
	return kept
}

// The hook verifies NOT_FOUND of a call that brings a volume: see
// TestDuty_K8_K25_NotFoundIsVerifiedBeforeItIsTriedAgain.
func TestDuty_C8_C9_C11_C13_K7_K9_K10_K14_K15_K20_K26_K27_K28_K33_K34_EachCodeOfACallForAVolume(
	t *testing.T,
) {
	for rpc, want := range map[string]map[string]outcome{
		"NodeStageVolume":     codes,
		"NodePublishVolume":   codesBut("FailedPrecondition", stages),
		"NodeUnpublishVolume": undoOutcomes(),
		"NodeUnstageVolume":   undoOutcomes(),
	} {
		t.Run(rpc, func(t *testing.T) {
			r := newFixture(t)
			p := r.plugin("ebs", "plug", nodeOnly)
			for _, code := range slices.Sorted(maps.Keys(want)) {
				t.Run(code, func(t *testing.T) {
					checkAnswer(t, r, p, rpc, code, want[code])
				})
			}
			r.clean(nil, "")
		})
	}
}

// checkAnswer makes the plugin answer an RPC once with a code, during an Up or a Down.
func checkAnswer(t *testing.T, r *fixture, p *csitest.Plugin, rpc, code string, want outcome) {
	u := use("v-"+code, "a1")
	step := func() error { _, err := r.v.Up(r.ctx(), u, nil); return err }
	if want == keeps || want == looks || want == parks {
		kit.Must(t, step())
		step = func() error { return r.v.Down(r.ctx(), u.VolumeKey, u.AllocID) }
	}
	p.Forget()
	p.Fail(rpc, csitest.Error(code, "out of order"))
	err := step()
	calls, made := 2, map[outcome]string{
		again:  rpc + " " + rpc,
		looks:  rpc + " " + rpc,
		stages: rpc + " NodeStageVolume " + rpc,
	}
	switch want {
	case fails, keeps, parks:
		calls = 1
		said := `plugin "ebs": ` + rpc + ": " + code + ": out of order"
		if err == nil ||
			!strings.HasSuffix(strings.Split(err.Error(), ";")[0], said) {
			t.Errorf("%s: got %v", want, err)
		}
	default:
		kit.Must(t, err)
		if got := volumeCalls(p); !strings.Contains(got, made[want]) {
			t.Errorf("%s: the calls are %s", want, got)
		}
	}
	if n := p.Count(rpc); n != calls {
		t.Errorf("%s: %d calls", want, n)
	}
	if want == parks {
		err := r.v.Down(r.ctx(), u.VolumeKey, u.AllocID)
		if err == nil || p.Count(rpc) != calls {
			t.Errorf("%s: %v after %d calls", want, err, p.Count(rpc))
		}
		r.v.UnparkCalls(u.VolumeKey)
	}
	if want == keeps || want == parks {
		calls = 2
	}
	kit.Must(t, r.v.downAndForget(r.ctx(), u.VolumeKey, u.AllocID))
	if n := p.Count(rpc); n != calls {
		t.Errorf("%s: %d calls in the end", want, n)
	}
	for _, c := range p.Calls(rpc)[1:] {
		if got, first := fmt.Sprint(c.Request), fmt.Sprint(p.Calls(rpc)[0].Request); got != first {
			t.Errorf("the call was repeated with other arguments:\n%s\n%s", got, first)
		}
	}
}

// volumeCalls are the plugin's calls for volumes, in their order.
func volumeCalls(p *csitest.Plugin) string {
	var list []string
	for _, c := range p.Calls("NodeStageVolume",
		"NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume") {
		list = append(list, c.RPC)
	}
	return strings.Join(list, " ")
}

// A volume that does not grow stays in use. The servers decide by the kind and code of the error whether its
// node is called again.
func TestDuty_C8_J10_J11_J12_J13_EachCodeOfNodeExpandVolume(t *testing.T) {
	const rpc = "NodeExpandVolume"
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		t.Run(code, func(t *testing.T) {
			u := use("v-"+code, "a1")
			u.ExpandBytes = 4 << 20
			var reported error
			u.Expanded = func(_ context.Context, _ int64, err error) { reported = err }
			p.Forget()
			p.Fail(rpc, csitest.Error(code, "out of order"),
				csitest.Error(code, "out of order"))
			_, err := r.v.Up(r.ctx(), u, nil)
			kit.Must(t, err)
			_, err = r.v.Expand(r.ctx(), u)
			for step, err := range map[string]error{"when it is mounted": reported, "on the servers' request": err} {
				if csi.Code(err) != code ||
					!strings.HasSuffix(err.Error(), `plugin "ebs": `+rpc+": "+code+": out of order") {
					t.Errorf("%s: got %v", step, err)
				}
			}
			if n := p.Count(rpc); n != 2 {
				t.Errorf("%d calls, want one per step", n)
			}
			kit.Must(t, r.v.downAndForget(r.ctx(), u.VolumeKey, u.AllocID))
		})
	}
	r.clean(p, "")
}

// A plugin that answers a call about itself with an error is unhealthy with any code, and keeps its known
// capabilities. The next fingerprint calls it again, because it may be another version by then.
func TestDuty_C8_C13_E8_EachCodeOfAFingerprint(t *testing.T) {
	r := newFixture(t)
	r.crash()
	r.cfg.FingerprintInterval = time.Hour // only the test fingerprints
	r.boot()
	p := r.plugin("ebs", "plug", both)
	r.serving(structs.CSIKindController, "ebs", "plug")
	r.serving(structs.CSIKindNode, "ebs", "plug")
	for kind, asked := range map[structs.CSIKind][]string{
		structs.CSIKindController: {"Probe", "GetPluginInfo", "GetPluginCapabilities", "ControllerGetCapabilities"},
		structs.CSIKindNode: {
			"Probe", "GetPluginInfo", "GetPluginCapabilities", "NodeGetCapabilities", "NodeGetInfo",
		},
	} {
		r.m.mu.Lock()
		i := r.m.slots[registry.Key{Kind: kind, ID: "ebs"}].current
		r.m.mu.Unlock()
		for _, rpc := range asked {
			for code := range codes {
				p.Fail(rpc, csitest.Error(code, "out of order"))
				got := r.m.fingerprint(r.ctx(), i)
				if got.Healthy || got.HealthDescription != `plugin "ebs": `+rpc+": "+code+": out of order" {
					t.Errorf("%s: %s: healthy %v, %q", rpc, code, got.Healthy, got.HealthDescription)
				}
				if known := i.report.Load(); got.Provider != known.Provider || got.NodeInfo != known.NodeInfo ||
					got.ControllerInfo != known.ControllerInfo {
					t.Errorf("%s: %s: forgotten: %+v", rpc, code, got)
				}
				if again := r.m.fingerprint(r.ctx(), i); !again.Healthy {
					t.Errorf("%s: %s: asked again: %s", rpc, code, again.HealthDescription)
				}
			}
		}
	}
}
