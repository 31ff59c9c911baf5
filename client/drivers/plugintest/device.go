package plugintest

import (
	"cmp"
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"berth/client/drivers/protocol/device"
	"berth/client/drivers/protocol/shared"
)

// deviceService has one group, test/file/mock, or of another name.
type deviceService struct {
	device.UnimplementedDevicePluginServer
	plugin *Plugin
}

func (d *deviceService) ids() []string {
	return strings.Fields(d.plugin.setting("devices"))
}

func (d *deviceService) Fingerprint(
	_ *device.FingerprintRequest, s device.DevicePlugin_FingerprintServer,
) error {
	sent := "none"
	for s.Context().Err() == nil {
		ids := d.ids()
		name := cmp.Or(d.plugin.setting("group"), "mock")
		if now := name + " " + strings.Join(ids, " "); now != sent {
			sent = now
			group := &device.DeviceGroup{
				Vendor:     "test",
				DeviceType: "file",
				DeviceName: name,
			}

			for _, id := range ids {
				group.Devices = append(group.Devices, &device.DetectedDevice{ID: id, Healthy: true})
			}

			answer := &device.FingerprintResponse{DeviceGroup: []*device.DeviceGroup{group}}
			if err := s.Send(answer); err != nil {
				return err
			}
		}

		time.Sleep(pollInterval)
	}
	return nil
}

func (d *deviceService) Reserve(
	_ context.Context, r *device.ReserveRequest,
) (*device.ReserveResponse, error) {
	return &device.ReserveResponse{ContainerRes: &device.ContainerReservation{
		Envs: map[string]string{"TEST_DEVICES": strings.Join(r.GetDeviceIds(), ",")},
	}}, nil
}

func (d *deviceService) Stats(_ *device.StatsRequest, s device.DevicePlugin_StatsServer) error {
	stats := map[string]*device.DeviceStats{}
	for _, id := range d.ids() {
		stats[id] = &device.DeviceStats{
			Summary:   &shared.StatValue{IntNumeratorVal: wrapperspb.Int64(1), Unit: "B"},
			Timestamp: timestamppb.Now(),
		}
	}

	err := s.Send(&device.StatsResponse{Groups: []*device.DeviceGroupStats{{
		Vendor:        "test",
		Type:          "file",
		Name:          "mock",
		InstanceStats: stats,
	}}})
	if err != nil {
		return err
	}

	<-s.Context().Done()
	return nil
}
