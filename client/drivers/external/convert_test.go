package external

import (
	"testing"

	"berth/client/driver"
)

func TestTaskConfig_HasDevicesApartFromMounts(t *testing.T) {
	d := &Driver{}
	got := d.taskConfig(&driver.TaskConfig{
		ID:  "a/t",
		Env: map[string]string{"VISIBLE": "0"},
		Mounts: []driver.Mount{
			{HostPath: "/h", TaskPath: "/t", ReadOnly: true},
			{HostPath: "/dev/a", TaskPath: "/dev/b", Device: true, Permissions: "rw"},
			{HostPath: "/dev/c", TaskPath: "/dev/c", Device: true},
			{HostPath: "/dev/d", TaskPath: "/dev/d", Device: true, ReadOnly: true},
		},
	}, nil, pipes{})
	if len(got.GetMounts()) != 1 || got.GetMounts()[0].GetHostPath() != "/h" || got.GetEnv()["VISIBLE"] != "0" {
		t.Errorf("got the mounts %v and the environment %v", got.GetMounts(), got.GetEnv())
	}
	want := []string{"/dev/a:/dev/b:rw", "/dev/c:/dev/c:rwm", "/dev/d:/dev/d:r"}
	for i, device := range got.GetDevices() {
		text := device.GetHostPath() + ":" + device.GetTaskPath() + ":" + device.GetCgroupPermissions()
		if i >= len(want) || text != want[i] {
			t.Errorf("device %d is %s", i, text)
		}
	}
	if len(got.GetDevices()) != len(want) {
		t.Errorf("got the devices %v", got.GetDevices())
	}
}
