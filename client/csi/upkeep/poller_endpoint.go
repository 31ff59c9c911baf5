package upkeep

import (
	"context"

	"github.com/hashicorp/go-metrics"

	"berth/internal/telemetry"
	"berth/rpc"
	"berth/structs/storage"
)

// Endpoint serves the last measurements to the servers.
func (p *Poller) Endpoint() rpc.Endpoint {
	return rpc.Handle(storage.NodeUsage, func(
		_ context.Context, req *storage.NodeUsageRequest,
	) (*storage.NodeUsageResponse, error) {
		if len(req.Volumes) == 0 {
			return &storage.NodeUsageResponse{}, nil
		}
		return &storage.NodeUsageResponse{Usages: p.Of(req.Volumes)}, nil
	})
}

// report sets the gauges of a volume that was measured.
func report(u *storage.VolumeUsage) {
	labels := []metrics.Label{
		{Name: "namespace", Value: u.Namespace},
		{Name: "volume", Value: u.VolumeID},
		{Name: "plugin", Value: u.PluginID},
	}
	if u.Bytes != nil {
		metrics.SetGaugeWithLabels([]string{"csi", "volume_bytes"}, float32(u.Bytes.Total), labels)
		metrics.SetGaugeWithLabels([]string{"csi", "volume_used"}, float32(u.Bytes.Percent()), labels)
	}
	if u.Inodes != nil {
		metrics.SetGaugeWithLabels([]string{"csi", "volume_inodes_used"}, float32(u.Inodes.Percent()), labels)
	}
}

// Gauges yields the values of all volumes under the names that the kubelet has for them, for dashboards and
// rules that know those.
func (p *Poller) Gauges(yield func(telemetry.Gauge)) {
	for _, u := range p.Of(nil) {
		gauges(u, yield)
	}
}

// Example yields all gauges of one volume, for the tests of documentation.
func Example(yield func(telemetry.Gauge)) {
	gauges(&storage.VolumeUsage{
		Bytes:     &storage.UsageAmount{},
		Inodes:    &storage.UsageAmount{},
		Condition: &storage.VolumeCondition{},
	}, yield)
}

// gauges yields the values of one volume.
func gauges(u *storage.VolumeUsage, yield func(telemetry.Gauge)) {
	labels := map[string]string{
		"namespace":             u.Namespace,
		"persistentvolumeclaim": u.VolumeID,
	}
	gauge := func(name, help string, value int64) {
		yield(telemetry.Gauge{
			Name:   "kubelet_volume_stats_" + name,
			Help:   help,
			Labels: labels,
			Value:  float64(value),
		})
	}

	if b := u.Bytes; b != nil {
		gauge("capacity_bytes", "Capacity of the volume in bytes", b.Total)
		gauge("available_bytes", "Bytes that users of the volume can still write", b.Available)
		gauge("used_bytes", "Used bytes of the volume", b.Used)
	}
	if i := u.Inodes; i != nil {
		gauge("inodes", "Inodes of the volume", i.Total)
		gauge("inodes_free", "Free inodes of the volume", i.Available)
		gauge("inodes_used", "Used inodes of the volume", i.Used)
	}
	if c := u.Condition; c != nil {
		abnormal := int64(0)
		if c.Abnormal {
			abnormal = 1
		}
		gauge("health_status_abnormal", "1 while the plugin reports the volume as abnormal", abnormal)
	}
}
