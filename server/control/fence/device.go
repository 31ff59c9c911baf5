package fence

import (
	"cmp"
	"context"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/server/fencing"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// Agent runs the program of a device. A *fencing.Device is one.
type Agent interface {
	// Matches returns why the device does not fence a node, "" if it does.
	Matches(t *state.FenceTarget) string
	// Covers reports whether a proof of fencing.ScopeStorage is about a volume.
	Covers(pluginID, namespace, volumeID string) bool
	// Fence runs the action off and then status.
	Fence(ctx context.Context, t *state.FenceTarget) fencing.Result
	// Monitor runs the action monitor, which changes nothing.
	Monitor(ctx context.Context, t *state.FenceTarget) fencing.Result
}

// Device is a fence device of the servers.
type Device struct {
	Name  string
	Scope string // fencing.ScopePower or fencing.ScopeStorage
	Plug  string // as it is configured; for operators
	Agent
}

// NewDevices returns the devices of a configuration, in its order.
func NewDevices(configured []*fencing.Device) (devices Devices) {
	for _, d := range configured {
		devices = append(devices, &Device{
			Name:  d.Name,
			Scope: cmp.Or(d.Scope, fencing.ScopePower),
			Plug:  cmp.Or(d.Plug, fencing.DefaultPlug),
			Agent: d,
		})
	}
	return devices
}

// covers reports whether a proof of the device is about a claim.
func (d *Device) covers(c *cluster.LostClaim) bool {
	return d.Scope == fencing.ScopePower || d.Covers(c.PluginID, c.Namespace, c.VolumeID)
}

// timedFence runs the agent and measures it.
func (d *Device) timedFence(ctx context.Context, t *state.FenceTarget) fencing.Result {
	labels := []metrics.Label{{Name: "device", Value: d.Name}}
	defer metrics.MeasureSinceWithLabels([]string{"fence", "agent"}, time.Now(), labels)
	return d.Fence(ctx, t)
}

// covered returns the claims that a proof of the device is about.
func (d *Device) covered(claims []*cluster.LostClaim) (keys []structs.CSIClaimKey) {
	for _, c := range claims {
		if d.covers(c) {
			keys = append(keys, c.CSIClaimKey)
		}
	}
	return keys
}

// Devices are the fence devices of a server, in the order in which they are tried.
type Devices []*Device

// For returns the devices that fence a node, with the numbers of the claims that they cover, and the others
// with the reasons.
func (d Devices) For(t *state.FenceTarget, claims []*cluster.LostClaim) (
	fence []*cluster.FenceDevice, others []*cluster.FenceMismatch,
) {
	fence = []*cluster.FenceDevice{}
	for _, device := range d {
		reason := device.Matches(t)
		if reason != "" {
			others = append(others, &cluster.FenceMismatch{Name: device.Name, Reason: reason})
			continue
		}
		fence = append(fence, &cluster.FenceDevice{
			Name:   device.Name,
			Scope:  device.Scope,
			Plug:   device.Plug,
			Covers: len(device.covered(claims)),
		})
	}

	return fence, others
}

// Test runs the action monitor of each device that fences a node, one after the other.
func (d Devices) Test(ctx context.Context, t *state.FenceTarget) []*cluster.FenceTest {
	results := []*cluster.FenceTest{}
	for _, device := range d {
		if device.Matches(t) != "" {
			continue
		}

		r := device.Monitor(ctx, t)
		results = append(results, &cluster.FenceTest{
			Device:   device.Name,
			OK:       r.ExitCode == 0,
			Reason:   r.Reason,
			ExitCode: r.ExitCode,
			Output:   tail(r.Output),
		})
	}

	return results
}

// tail returns the end of an output, as much as a row keeps.
func tail(output string) string {
	return output[max(0, len(output)-cluster.FenceOutput):]
}
