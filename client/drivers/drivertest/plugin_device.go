package drivertest

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

// ids reads the setting, so that a test changes the devices of a running plugin.
func (d *deviceService) ids() []string {
	return strings.Fields(d.plugin.setting("devices"))
}

// Fingerprint reports the group at first and at each change, as plugins of the dialect do. It polls, because
// the test that changes the settings is another process.
func (d *deviceService) Fingerprint(
	_ *device.FingerprintRequest, s device.DevicePlugin_FingerprintServer,
) error {
	// No report has this text, so the first one is sent, also without devices.
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

			// All are healthy: a device that fails is one that the setting lacks.
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

// Reserve gives the task a variable with the IDs. A test finds in it which devices it got, and in which
// order.
func (d *deviceService) Reserve(
	_ context.Context, r *device.ReserveRequest,
) (*device.ReserveResponse, error) {
	return &device.ReserveResponse{ContainerRes: &device.ContainerReservation{
		Envs: map[string]string{"TEST_DEVICES": strings.Join(r.GetDeviceIds(), ",")},
	}}, nil
}

// Stats sends one message and keeps the stream open, so that a reader has to end it.
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

	// The end of the stream is the agent's.
	<-s.Context().Done()
	return nil
}
