package allocrunner

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/hooks"
	"berth/structs"
)

// fakeFolders has the path of a volume.
type fakeFolders string

func (f fakeFolders) Mount(task, path string) (string, error) {
	if path == "gone" {
		return "", structs.Preconditionf("no folder %s", path)
	}
	return f.Path(task, path) + " mounted", nil
}

func (f fakeFolders) Path(task, path string) string { return string(f) + " " + task + " " + path }

func TestVolumeMounts_MountFoldersOfVolumes(t *testing.T) {
	const note = "3 files keep their owners"
	for _, c := range []struct{ volume, folder, source, want string }{
		{"data", "pg/${NOMAD_ALLOC_INDEX}", "/data web pg/0 mounted", "Volume data: " + note},
		{"data", "", "/data", "Volume data: " + note},
		{"data", "gone", "", "volume data: no folder gone"},
		{"disk", "pg", "", `sub_path "pg": the volume is a device`},
	} {
		inVirtualTime(t, func(t *testing.T) {
			fx := newFixture(t)
			a := fx.agent()
			defer a.stop()
			a.allocs[0].setup = func(env *hooks.AllocEnv) {
				env.SetVolume("data", hooks.VolumeMount{HostPath: "/data", Folders: fakeFolders("/data"), Note: note})
				env.SetVolume("disk", hooks.VolumeMount{HostPath: "/dev/sdx", Device: true})
			}
			alloc := testAlloc("web")
			alloc.Job.TaskGroups[0].Tasks[0].VolumeMounts = []*structs.VolumeMount{
				{Volume: c.volume, Destination: "/d", SubPath: c.folder},
			}
			a.new(alloc)
			synctest.Wait()
			said := eventMessages(a.last().TaskStates["web"])
			if !strings.Contains(said, c.want) {
				t.Errorf("%+v: the events are %s", c, said)
			}
			if c.source == "" {
				return
			}
			task := fx.machine.Task("alloc1/web")
			if len(task.Config.Mounts) != 1 || task.Config.Mounts[0].HostPath != c.source {
				t.Fatalf("%+v: the task has %+v", c, task.Config)
			}
			// The event is not repeated by the next start.
			fx.machine.Exit("alloc1/web", exitResult(1))
			time.Sleep(time.Minute)
			synctest.Wait()
			said = eventMessages(a.last().TaskStates["web"])
			if fx.machine.Task("alloc1/web").Starts < 2 || strings.Count(said, note) != 1 {
				t.Errorf("%+v: the events after a restart are %s", c, said)
			}
		})
	}
}
